# SPDX-License-Identifier: MIT OR Apache-2.0
"""The bench of sweeps: its form, its bars, and what its rows are made of."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import dask.config
import distributed  # noqa: F401 # pyright: ignore[reportUnusedImport]
import makeway as mw
from conftest import DISCIPLINE, ROOT

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

BENCH = ROOT / "crates/python/bench"


def module(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module(name)


def test_the_bench_writes_its_form(tmp_path: Path) -> None:
    out = tmp_path / "sweep.json"
    command = [sys.executable, str(BENCH / "sweep.py"), "--only", "store", "--store-runs", "100"]
    subprocess.run([*command, "--out", str(out)], check=True, stdout=subprocess.DEVNULL)
    (row,) = json.loads(out.read_text())
    form = ["case", "engine", "workers", "runs", "scheduling", "overall", "makespan_s", "identical"]
    assert list(row)[: len(form)] == form
    assert (row["case"], row["runs"], row["met"]) == ("store", 100, True)
    assert min(row[name] for name in ("scan_s", "query_s", "query_all_s", "bytes_per_run")) >= 0


def test_a_row_is_judged_by_the_bars_of_its_case(monkeypatch: pytest.MonkeyPatch) -> None:
    missed = module("sweep", monkeypatch).missed

    def row(case: str, **figures: float | None) -> dict[str, Any]:
        return {"case": case, "engine": "dask", **figures}

    assert missed(row("warm", scheduling=0.95)) == []
    assert missed(row("contended", scheduling=0.9)) == []
    assert missed(row("warm", scheduling=0.94)) == ["warm, dask: scheduling 0.94, at least 0.95"]
    assert missed(row("store", scan_s=10.0, query_s=1.5)) == ["store, dask: query_s 1.5, at most 1"]
    # Of SEM there is none, nor of other cases.
    assert missed(row("cold", scheduling=None)) is None
    assert missed(row("kept", scheduling=0.1)) is None


def test_dask_has_the_settings_of_workers_in_one_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in module("sweep", monkeypatch).QUIET.items():
        assert dask.config.get(key) != value, key


def case(name: str, end: str, **told: object) -> str:
    properties = "".join(f'<property name="{key}" value="{value}"/>' for key, value in told.items())
    return f'<testcase name="{name}" time="2.5"><properties>{properties}</properties>{end}</testcase>'


REPORT = (
    "<testsuites><testsuite>"
    + case("a", "", case="SIGKILL of a worker", engine="dask", workers=2, runs=24, lost_chunks=1)
    + case("b", '<failure message="no"/>', case="mixed versions", engine="pool", workers=1, runs=12)
    + case("c", "<skipped/>")
    + "</testsuite></testsuites>"
)


def test_tests_of_faults_are_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    faults = module("faults", monkeypatch)
    killed, mixed = faults.of_report(REPORT)
    assert killed == faults.Fault("SIGKILL of a worker", "dask", 2, 24, 2.5, True, {"lost_chunks": 1})
    assert mixed == faults.Fault("mixed versions", "pool", 1, 12, 2.5, False, {})
    # The tests are there.
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--collect-only", *faults.TESTS]
    subprocess.run(command, check=True, cwd=faults.FOLDER, stdout=subprocess.DEVNULL)


LAB = """#!/bin/sh
# As makeway-lab: --plans FOLDER, or a verdict.
for argument; do
    case "$last" in
    --plans) cp -r PLANS "$argument" ;;
    --json) echo "[\\"$VERDICT\\"]" > "$argument" ;;
    esac
    last=$argument
done
"""


def test_a_study_is_the_same_where_runs_reports_and_verdicts_are(
    call: mw.Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module_of_studies = module("studies", monkeypatch)
    written = tmp_path / "written"
    written.mkdir()
    for discipline in ("fifo", "sqf"):
        plan = call.set({DISCIPLINE: discipline}).sweep({}, replications=2, keep="report").plan
        (written / f"a-{discipline}.json").write_text(plan.json())
    lab = tmp_path / "lab"
    lab.write_text(LAB.replace("PLANS", str(written)))
    lab.chmod(0o755)
    (tmp_path / "study").mkdir()
    study = module_of_studies.Study("a paper", lab, ("papers", "a"), tmp_path / "study")
    monkeypatch.setenv("VERDICT", "reproduced")
    sweeps = study.plans()
    assert mw.run_all(sweeps, study.store("one"), workers=1).made == 4
    assert mw.run_all(sweeps, study.store("other"), workers=2).made == 4
    same = study.digest("one")
    assert study.digest("other") == same
    monkeypatch.setenv("VERDICT", "differs")
    assert study.digest("other") != same
    monkeypatch.setenv("VERDICT", "reproduced")
    # A run of another seed is not the same.
    other = call.set({"seed": 7}).sweep({}, replications=2, keep="report")
    (written / "a-seed.json").write_text(other.plan.json())
    more = module_of_studies.Study("a paper", lab, ("papers", "a"), tmp_path / "more")
    (tmp_path / "more").mkdir()
    mw.run_all(more.plans(), more.store("one"))
    assert more.digest("one") != same
