# SPDX-License-Identifier: MIT OR Apache-2.0
"""The world netns: what the program is asked, and what becomes of its report. `tests/netns` runs the program itself."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import makeway as mw
import pytest
from conftest import TEXT

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """#!/bin/sh
# As makeway: keeps its arguments and the scenario, prints a report.
printf '%s\\n' "$@" > FOLDER/arguments
cat "$2" > FOLDER/scenario
cat FOLDER/report
echo "$WHY" >&2
exit "${STATUS:-0}"
"""


@pytest.fixture
def program(call: mw.Scenario, tmp_path: Path) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    report = call.run(replication=3).report()
    report |= {"world": "netns", "seed": 9, "title": "a file", "set": {"seed": "9"}, "warnings": ["a sender was late"]}
    (folder / "report").write_text(json.dumps(report))
    program = folder / "makeway"
    program.write_text(PROGRAM.replace("FOLDER", str(folder)))
    program.chmod(0o755)
    return program


def asked(program: Path) -> list[str]:
    return (program.parent / "arguments").read_text().splitlines()


def test_a_run_in_namespaces_is_that_of_the_program(
    call: mw.Scenario, program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    scenario = mw.Scenario(TEXT).set({"link.line.rate": "3mbit"})
    run = scenario.run(world="netns", replication=2)
    command, file, *options = asked(program)
    assert (command, options) == (
        "run",
        ["--world", "netns", "--json", "--set", "link.line.rate=3mbit", "--set", f"seed={scenario.seed + 2}"],
    )
    assert (program.parent / "scenario").read_text() == TEXT
    # Nothing is left of its file.
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]
    assert file != str(tmp_path / "scenario")
    simulated = call.run(replication=3)
    assert run.flows.rows() == simulated.flows.rows()
    assert run.queues.rows() == simulated.queues.rows()
    assert run.series().rows() == simulated.series().rows()
    assert (run.world, simulated.world) == ("netns", "sim")
    assert (run.replication, run.seed, run.hops, run.fingerprint) == (2, 9, 0, "")
    assert run.warnings == ["a sender was late"]
    assert run.report()["title"] == scenario.title
    assert run.report()["set"] == {"link.line.rate": "3mbit"}
    assert "netns" in run.html()
    assert run.flent(tmp_path / "run.flent.gz").stat().st_size > 100


def test_a_scenario_of_a_file_is_run_from_there(program: Path, tmp_path: Path) -> None:
    file = tmp_path / "call.toml"
    file.write_text(TEXT)
    scenario = mw.Scenario(file)
    scenario.run(world="netns", program=program)
    assert asked(program) == ["run", str(file), "--world", "netns", "--json"]
    # It is what was read that is run.
    file.write_text(TEXT.replace("2mbit", "1mbit"))
    scenario.run(world="netns", program=program)
    assert asked(program)[1] != str(file)
    assert (program.parent / "scenario").read_text() == TEXT


def test_errors_of_the_program_are_exceptions(call: mw.Scenario, program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATUS", "1")
    monkeypatch.setenv("WHY", "makeway: user namespaces are not allowed")
    with pytest.raises(mw.RunError, match=r"exit status 1: user namespaces are not allowed"):
        call.run(world="netns", program=program)
    monkeypatch.setenv("STATUS", "130")
    monkeypatch.setenv("WHY", "")
    with pytest.raises(mw.RunError, match="the run was cut short"):
        call.run(world="netns", program=program)
    monkeypatch.setenv("STATUS", "0")
    (program.parent / "report").write_text("no report")
    with pytest.raises(mw.RunError, match="not a report of makeway"):
        call.run(world="netns", program=program)
    with pytest.raises(mw.RunError, match=r"no program '/nowhere/makeway', .* install makeway"):
        call.run(world="netns", program="/nowhere/makeway")
    with pytest.raises(ValueError, match="traces are of runs in simulated time"):
        call.run(world="netns", program=program, ns2={"": "all.tr"})
    with pytest.raises(ValueError, match="world 'vm': choose 'sim'"):
        call.run(world="vm")
