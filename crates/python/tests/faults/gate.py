# SPDX-License-Identifier: MIT OR Apache-2.0
"""Chunks that are logged where they are made, and that a test can hold: faults come at a known point and not after a time."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

# As it is before a test puts the one below in its place.
from makeway._executors import run_chunk as made

if TYPE_CHECKING:
    from makeway._executors import Jobs
    from makeway._makeway import Done

FOLDER = "MAKEWAY_GATE"
"""Variable with the folder of the log and of the files that hold."""


def run_chunk(work: list[tuple[str, Jobs]]) -> Done:
    """Between two lines of the log. Waits while there is a file `hold-PID` or `hold-all`."""
    folder = Path(os.environ[FOLDER])
    name = hashlib.sha256(repr(work).encode()).hexdigest()[:16]
    _log(folder, "begin", name)
    while (folder / f"hold-{os.getpid()}").exists() or (folder / "hold-all").exists():
        time.sleep(0.01)
    done = made(work)
    _log(folder, "end", name)
    return done


def _log(folder: Path, what: str, name: str) -> None:
    # One write of a short line at the end of a file is whole.
    with (folder / "log").open("a") as file:
        file.write(f"{what} {os.getpid()} {name}\n")
