# SPDX-License-Identifier: MIT OR Apache-2.0
"""The program that MAKEWAY_PROGRAM names beside this module: the same stores, figures and errors."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import makeway as mw
import pytest

if TYPE_CHECKING:
    from subprocess import CompletedProcess

PROGRAM = os.environ.get("MAKEWAY_PROGRAM", "")
SAMPLE = Path(__file__).resolve().parents[3] / "store/src/sample.toml"
DISCIPLINE, RATE = "link.line.queue.discipline", "link.line.rate"
AXES = f"""
replications = 3
[[axis]]
key = "{DISCIPLINE}"
values = ["fifo", "sqf"]
[[axis]]
key = "{RATE}"
values = ["1mbit", "2mbit"]
"""

pytestmark = pytest.mark.skipif(not PROGRAM, reason="MAKEWAY_PROGRAM names no program")


def program(*arguments: str | Path) -> CompletedProcess[str]:
    return subprocess.run([PROGRAM, *map(str, arguments)], check=False, capture_output=True, text=True)


def swept(folder: Path, axes: str, *more: str) -> CompletedProcess[str]:
    """`makeway run --sweep` with these axes and the store in `folder`."""
    (folder / "sweep.toml").write_text(axes)
    return program("run", SAMPLE, "--world", "sim", "--sweep", folder / "sweep.toml", "--store", folder / "store", *more)


def test_a_sweep_of_the_program_is_one_of_the_module(tmp_path: Path) -> None:
    first = swept(tmp_path, AXES, "--shard", "1/2")
    assert first.returncode == 0, first.stderr
    assert "6 runs: 0 were in the store, 6 made" in first.stdout
    second = swept(tmp_path, AXES, "--shard", "2/2", "--json")
    assert second.returncode == 0, second.stderr
    store = mw.Store(tmp_path / "store")
    assert set(store.runs()["code"]) == {mw.SIMULATOR}, "the program has other sources: cargo build --bin makeway"
    sweep = mw.Scenario(SAMPLE).sweep({DISCIPLINE: ["fifo", "sqf"], RATE: ["1mbit", "2mbit"]}, replications=3)
    sweep.run(store)
    assert (sweep.summary.made, sweep.summary.kept) == (0, 12)
    assert json.loads(second.stdout) == store.estimates().rows()
    # What the module makes, the program has.
    more = mw.Scenario(SAMPLE).sweep({DISCIPLINE: ["fifo", "sqf"], RATE: ["1mbit", "2mbit"]}, replications=4)
    more.run(store)
    assert more.summary.made == 4
    done = swept(tmp_path, AXES, "--runs", "4")
    assert "16 runs: 16 were in the store, 0 made" in done.stdout


def test_a_failed_run_is_told_by_its_reason_and_the_exit_status(tmp_path: Path) -> None:
    axes = 'replications = 1\n[[axis]]\nkey = "flow.download.congestion_control"\nvalues = ["cubic", "bbr"]\n'
    for more, counts in [
        ((), "2 runs: 0 were in the store, 2 made, 1 of them failed"),
        ((), "2 runs: 2 were in the store, 0 made"),
        (("--again",), "2 runs: 1 were in the store, 1 made, 1 of them failed"),
    ]:
        done = swept(tmp_path, axes, *more)
        assert done.returncode == 1
        assert counts in done.stdout
        assert "no congestion control `bbr`" in done.stdout


@pytest.mark.parametrize(
    "setting",
    [
        "link.lin.rate=1mbit",
        "link.line.rat=1mbit",
        "link.line.rate=fast",
        "link.line.queue.discipline=sfq",
        "link.line.queue.limit=many",
        "flow.download.count=-1",
        "flow.call.kind=poison",
        "duration=0s",
    ],
)
def test_a_setting_is_refused_in_the_words_of_the_program(setting: str) -> None:
    key, value = setting.split("=")
    with pytest.raises(mw.ScenarioError) as refused:
        mw.Scenario(SAMPLE).set({key: value})
    told = program("check", SAMPLE, "--set", setting)
    assert told.returncode == 1
    assert told.stderr == f"makeway: {refused.value}\n"


def test_a_file_is_refused_in_the_words_of_the_program(tmp_path: Path) -> None:
    file = tmp_path / "call.toml"
    for text in (SAMPLE.read_text().replace('"poisson"', '"poison"'), "duration = \n", ""):
        file.write_text(text)
        with pytest.raises(mw.ScenarioError) as refused:
            mw.Scenario(file)
        assert program("check", file).stderr == f"makeway: {refused.value}\n"
