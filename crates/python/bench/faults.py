# SPDX-License-Identifier: MIT OR Apache-2.0
"""Faults of a sweep's processes, links and disks, as the module's own tests make them: a row for each.

A test that calls `record_property("case", ...)` is a row; it has failed where the finished table is not the serial one, or where
more was lost than a chunk of each worker and a part.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

FOLDER = Path(__file__).resolve().parents[1]
OF_SWEEPS = "tests/python/test_sweep.py"
TESTS = (
    "tests/faults",
    f"{OF_SWEEPS}::test_a_killed_driver_loses_one_part_at_most",
    f"{OF_SWEEPS}::test_a_damaged_part_is_made_again",
)
IN_NAMESPACES = ("unshare", "-rUnm", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")


@dataclass(frozen=True)
class Fault:
    case: str
    engine: str
    workers: int
    runs: int
    seconds: float
    """Of the whole test: start of the processes, the fault, and the repeated sweep."""
    passed: bool
    more: dict[str, int] = field(default_factory=dict)
    """`lost_chunks`: chunks that were begun before the fault, or because of it, and made again."""


def of_report(text: str) -> list[Fault]:
    """Rows of a JUnit report of pytest."""
    faults: list[Fault] = []
    for test in ElementTree.fromstring(text).iter("testcase"):
        told = {one.get("name", ""): one.get("value", "") for one in test.iter("property")}
        if "case" not in told:
            continue
        passed = test.find("failure") is None and test.find("error") is None
        more = {"lost_chunks": int(told["lost_chunks"])} if "lost_chunks" in told else {}
        workers, runs, seconds = int(told["workers"]), int(told["runs"]), float(test.get("time", "nan"))
        faults.append(Fault(told["case"], told["engine"], workers, runs, seconds, passed, more))
    return faults


def made() -> list[Fault]:
    """Makes all of them. Links, and a disk that is full, need namespaces of this user."""
    allowed = subprocess.run([*IN_NAMESPACES, "true"], check=False, stderr=subprocess.DEVNULL).returncode == 0
    inside = allowed and Path("/dev/net/tun").exists()
    if not inside:
        print("`unshare -rUnm` is not allowed, or there is no /dev/net/tun: no faults of links and disks", file=sys.stderr)
    environment = {**os.environ, "MAKEWAY_NAMESPACES": "1" if inside else "0"}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        pytest = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            f"--junitxml={report}",
            "-o",
            "junit_family=xunit1",
            *TESTS,
        ]
        command = [*(IN_NAMESPACES if inside else ()), *pytest]
        done = subprocess.run(
            command, check=False, cwd=FOLDER, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        # 1: a test has failed, which is a row.
        if done.returncode:
            print(done.stdout, file=sys.stderr)
        if done.returncode > 1:
            raise RuntimeError(f"pytest ended with {done.returncode}")
        return of_report(report.read_text())
