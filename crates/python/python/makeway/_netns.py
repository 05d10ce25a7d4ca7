# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs in the world `netns`, by the program `makeway`: the kernel's own TCP, in network namespaces of this machine.

This module has no code of worlds with a kernel, so the program runs the scenario and this reads its report.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path

from makeway import _makeway


def report(scenario: _makeway.Scenario, replication: int, program: str | Path) -> str:
    """JSON of a run by the program, which must be of the same version as this module.

    Raises:
        RunError: there is no such program, or it could not run the scenario.
    """
    found = shutil.which(program)
    if found is None:
        raise _makeway.RunError(
            f"no program {str(program)!r}, which runs scenarios in the world netns: install makeway, "
            "or give its path, program='target/release/makeway'"
        )
    settings = list(scenario.settings)
    if replication:
        settings.append(f"seed={scenario.seed + replication}")
    with ExitStack() as files:
        command = [found, "run", str(_file(scenario, files)), "--world", "netns", "--json"]
        for setting in settings:
            command += ["--set", setting]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        why = done.stderr.strip().removeprefix("makeway: ") or "the run was cut short"
        raise _makeway.RunError(f"{program}, exit status {done.returncode}: {why}")
    return done.stdout


def _file(scenario: _makeway.Scenario, files: ExitStack) -> Path:
    """A file with the scenario's text, in the folder from which it names traces: its own, if that is unchanged."""
    text, name, folder = scenario.source
    own = Path(name)
    if own.is_file() and own.parent == Path(folder) and own.read_text(encoding="utf-8") == text:
        return own
    new = tempfile.NamedTemporaryFile("w", dir=folder, prefix=".makeway-", suffix=".toml", encoding="utf-8")  # noqa: SIM115
    file = files.enter_context(new)
    file.write(text)
    file.flush()
    return Path(file.name)
