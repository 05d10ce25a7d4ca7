# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sweeps over links with delay, loss and a partition, and on a disk that is full, in namespaces of their own:

unshare -rUnm sh -c 'ip link set lo up && MAKEWAY_NAMESPACES=1 exec python -m pytest tests/faults'
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import gate
import makeway as mw
import pytest
from machines import HERE, Machines, parts, sweep, table, told, until
from makeway import _executors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from makeway._executors import Jobs
    from makeway._makeway import Done

    Record = Callable[[str, object], None]

pytestmark = pytest.mark.skipif(
    os.environ.get("MAKEWAY_NAMESPACES") != "1", reason="in namespaces of their own only: the command is in test_network.py"
)

HEAD = "10.77.0.1"
"""The scheduler, and this process."""


class Wire:
    """A namespace, and a link to it: 20 ms each way, 2 % of the packets lost."""

    def __init__(self, number: int) -> None:
        command = [sys.executable, str(HERE / "wire.py"), str(number), "20", "0.02"]
        self.program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        assert self.program.stdout is not None
        assert self.program.stdout.readline() == "ready\n"
        self.address = f"10.77.{number}.2"
        self.inside = ["nsenter", "-t", str(self.program.pid), "-n"]

    def say(self, word: str) -> None:
        assert self.program.stdin is not None
        self.program.stdin.write(f"{word}\n")

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.program.kill()
        self.program.communicate()


def test_delay_loss_and_a_partition_cost_nothing_that_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    told(record_property, "links with 20 ms, 2 % loss and a partition", "dask", 2, 24)
    monkeypatch.setattr(_executors, "run_chunk", gate.run_chunk)
    monkeypatch.setattr(_executors, "SECONDS", 0.02)
    monkeypatch.setattr(_executors, "LATE_S", 1.0)
    subprocess.run(["ip", "addr", "add", f"{HEAD}/32", "dev", "lo"], check=True)
    swept = sweep()
    serial = table(swept.run(tmp_path / "serial", workers=1), swept)
    with Wire(1) as cut, Wire(2) as whole, Machines(tmp_path / "machines", HEAD) as machines:
        victim, other = (machines.worker(prefix=wire.inside, host=wire.address) for wire in (cut, whole))
        machines.hold(victim)

        def partition() -> None:
            until(lambda: machines.has("begin", victim), "a chunk behind the link")
            cut.say("cut")

        with machines.cluster(2) as cluster:
            with machines.meanwhile(partition):
                store = swept.run(tmp_path / "store", on=cluster)
            # The other has made those of the worker that is cut off, too.
            assert table(store, swept) == serial
            made = {chunk for what, pid, chunk in machines.log() if what == "end" and pid == other.pid}
            assert {chunk for what, _, chunk in machines.log() if what == "begin"} == made
            # No more is lost than the chunk that it had.
            lost = sum((what, pid) == ("begin", victim.pid) for what, pid, _ in machines.log())
            assert lost == 1
            record_property("lost_chunks", lost)
            cut.say("mend")
            # With the links whole again, one worker or both are there.
            again = mw.Store(tmp_path / "again")
            swept.run(again, on=cluster, workers=2)
            assert table(again, swept) == serial


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)], check=True)
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def fill(disk: Path) -> None:
    """Until the last byte."""
    with (disk / "ballast").open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError as error:
            assert error.errno == errno.ENOSPC


def test_a_disk_that_fills_up_costs_one_part(
    small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    told(record_property, "a full disk", "pool", 1, 24)
    swept = sweep()
    serial = table(swept.run(tmp_path / "serial", workers=1), swept)
    folder = small_disk / "store"

    ended: list[Done] = []

    def filling(work: list[tuple[str, Jobs]]) -> Done:
        done = gate.made(work)
        ended.append(done)
        if parts(folder) and not (small_disk / "ballast").exists():
            fill(small_disk)
        return done

    monkeypatch.setattr(_executors, "run_chunk", filling)
    monkeypatch.setattr(_executors, "SECONDS", 0.02)
    with ThreadPoolExecutor(1) as pool, pytest.raises(OSError, match="No space left"):
        swept.run(folder, on=pool)
    assert parts(folder) > 0
    # The part that could not be written, and a chunk that the worker had ended meanwhile.
    assert 1 <= len(ended) - parts(folder) <= 2
    record_property("lost_chunks", len(ended) - parts(folder))
    (small_disk / "ballast").unlink()
    store = mw.Store(folder)
    assert not list((folder / "damaged").glob("*"))
    monkeypatch.undo()
    swept.run(store)
    assert 0 < swept.summary.kept < len(swept)
    assert table(store, swept) == serial
    assert not list(folder.glob("**/.new-*"))
