# SPDX-License-Identifier: MIT OR Apache-2.0
"""Processes that are killed, that stop, and of another version: the finished table is the serial one, and little is lost."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gate
import makeway as mw
import pytest
from machines import HERE, Machines, parts, sweep, table, told, until
from makeway import _executors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Record = Callable[[str, object], None]


@pytest.fixture(scope="module")
def serial(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Made on one thread."""
    one = sweep()
    return table(one.run(tmp_path_factory.mktemp("serial"), workers=1), one)


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machines]:
    monkeypatch.setattr(_executors, "run_chunk", gate.run_chunk)
    # Several chunks of 24 short runs.
    monkeypatch.setattr(_executors, "SECONDS", 0.02)
    with Machines(tmp_path / "machines") as machines:
        yield machines


def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep asks for silent workers after seconds. Each tells Dask twice a second that it is there, later on a busy machine."""
    for name, value in (("SILENT_S", 6.0), ("SILENT_CHUNKS", 1), ("HEARD_S", 4.0)):
        monkeypatch.setattr(_executors, name, value)


def test_a_killed_worker_costs_its_chunk(machines: Machines, serial: list[Any], tmp_path: Path, record_property: Record) -> None:
    told(record_property, "SIGKILL of a worker", "dask", 2, 24)
    victim, _ = machines.worker(), machines.worker()
    machines.hold(victim)

    def kill() -> None:
        until(lambda: machines.has("begin", victim), "a chunk of the victim")
        victim.kill()

    swept = sweep()
    with machines.cluster(2) as cluster, machines.meanwhile(kill):
        store = swept.run(tmp_path / "store", on=cluster)
    assert table(store, swept) == serial
    assert swept.summary.made == len(swept)
    # One chunk was begun twice: the one that the victim was making.
    assert machines.count("begin") - machines.count("end") == 1
    assert machines.repeated() == 1
    record_property("lost_chunks", 1)


def test_a_worker_that_stops_is_not_waited_for(
    machines: Machines, serial: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    told(record_property, "SIGSTOP of a worker", "dask", 2, 24)
    monkeypatch.setattr(_executors, "LATE_S", 0.5)
    victim, other = machines.worker(), machines.worker()
    machines.hold(victim)

    def stop() -> None:
        until(lambda: machines.has("begin", victim), "a chunk of the victim")
        os.kill(victim.pid, signal.SIGSTOP)

    swept = sweep()
    with machines.cluster(2) as cluster, machines.meanwhile(stop):
        store = swept.run(tmp_path / "store", on=cluster)
        assert table(store, swept) == serial
        # It has ended nothing: all of it is of the other.
        assert {pid for what, pid, _ in machines.log() if what == "end"} == {other.pid}
        # The chunk that it was making is all that it had begun.
        assert [(what, pid) for what, pid, _ in machines.log() if pid == victim.pid] == [("begin", victim.pid)]
        record_property("lost_chunks", 1)
        os.kill(victim.pid, signal.SIGCONT)


def test_a_chunk_of_a_worker_that_is_silent_is_sent_to_another_before_the_end(
    machines: Machines, serial: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    told(record_property, "SIGSTOP of a worker, a chunk at a time", "dask", 2, 24)
    impatient(monkeypatch)
    for _ in range(2):
        machines.worker()
    machines.hold()
    stopped: list[int] = []

    def stop() -> None:
        until(lambda: machines.has("begin"), "a chunk")
        stopped.append(machines.log()[0][1])
        os.kill(stopped[0], signal.SIGSTOP)

    swept = sweep()
    with machines.cluster(2) as cluster:
        with machines.meanwhile(stop):
            store = swept.run(tmp_path / "store", on=cluster, workers=1)
        assert table(store, swept) == serial
        # It got no other.
        assert [what for what, pid, _ in machines.log() if pid == stopped[0]] == ["begin"]
        record_property("lost_chunks", 1)
        os.kill(stopped[0], signal.SIGCONT)


def test_a_sweep_whose_workers_are_all_silent_ends_and_the_store_goes_on(
    machines: Machines, serial: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    told(record_property, "SIGSTOP of all workers", "dask", 2, 24)
    impatient(monkeypatch)
    first, second = machines.worker(), machines.worker()
    machines.hold(first)
    folder = tmp_path / "store"

    def stop() -> None:
        until(lambda: machines.has("begin", first) and parts(folder), "a chunk under way and a part")
        for worker in (first, second):
            os.kill(worker.pid, signal.SIGSTOP)

    swept = sweep()
    who = r"these workers do not answer: .*tcp://127.0.0.1:\d+ with the chunk that begins at point \d, replication \d of"
    silent = pytest.raises(ConnectionError, match=f"{who}.*: \\d+ of 24 runs are in the store; run the sweep again")
    with machines.cluster(2) as cluster:
        with machines.meanwhile(stop), silent:
            swept.run(folder, on=cluster)
        lost = machines.count("begin") - parts(folder)
        assert 1 <= lost <= 2 + 1
        record_property("lost_chunks", lost)
        for worker in (first, second):
            os.kill(worker.pid, signal.SIGCONT)
        store = swept.run(folder, on=cluster)
    assert 0 < swept.summary.kept < len(swept)
    assert table(store, swept) == serial


def test_a_killed_scheduler_ends_the_sweep_and_the_store_goes_on(
    machines: Machines, serial: list[Any], tmp_path: Path, record_property: Record
) -> None:
    told(record_property, "SIGKILL of the scheduler", "dask", 2, 24)
    victim, _ = machines.worker(), machines.worker()
    machines.hold(victim)
    folder = tmp_path / "store"

    def kill() -> None:
        until(lambda: machines.has("begin", victim) and parts(folder), "a chunk under way and a part")
        machines.scheduler.kill()

    swept = sweep()
    lost = pytest.raises(ConnectionError, match="of 24 runs are in the store; run the sweep again")
    with machines.cluster(2) as cluster, machines.meanwhile(kill), lost:
        swept.run(folder, on=cluster)
    # A chunk that each worker was making or had made, and one part that was not written yet.
    lost = machines.count("begin") - parts(folder)
    assert 1 <= lost <= 2 + 1
    record_property("lost_chunks", lost)
    store = swept.run(folder)
    assert 0 < swept.summary.kept < len(swept)
    assert table(store, swept) == serial


DRIVER = """
import sys
import gate
import makeway as mw
from makeway import _executors

_executors.run_chunk, _executors.SECONDS = gate.run_chunk, 0.02
mw.Sweep.load(sys.argv[1]).run(sys.argv[2], on=mw.dask(sys.argv[3]), progress=False)
"""


def test_a_killed_driver_loses_a_chunk_of_each_worker_and_a_part(
    machines: Machines, serial: list[Any], tmp_path: Path, record_property: Record
) -> None:
    told(record_property, "SIGKILL of the driver", "dask", 2, 24)
    victim, _ = machines.worker(), machines.worker()
    machines.hold(victim)
    folder, plan = tmp_path / "store", tmp_path / "plan.json"
    swept = sweep()
    plan.write_text(swept.plan.json())
    with machines.cluster(2) as cluster:
        path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
        command = [sys.executable, "-c", DRIVER, str(plan), str(folder), machines.address]
        driver = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path})
        try:
            until(lambda: machines.has("begin", victim) and parts(folder), "a chunk under way and a part")
            assert driver.poll() is None
        finally:
            driver.kill()
            driver.wait()
        lost = machines.count("begin") - parts(folder)
        assert 1 <= lost <= 2 + 1
        record_property("lost_chunks", lost)
        machines.release()
        store = swept.run(folder, on=cluster)
    assert 0 < swept.summary.kept < len(swept)
    assert table(store, swept) == serial


def another_version(folder: Path) -> Path:
    """The module with another fingerprint of the simulator in its compiled half."""
    copy = folder / "makeway"
    shutil.copytree(Path(mw.__file__).parent, copy)
    compiled = next(copy.glob("_makeway*.so"))
    code = compiled.read_bytes()
    # A comparison that is optimised has it in halves.
    simulator = mw.SIMULATOR.encode()
    for half in (simulator[:16], simulator[16:]):
        assert half in code
        code = code.replace(half, b"f" * 16)
    compiled.write_bytes(code)
    return folder


def test_a_worker_of_another_version_is_refused(
    machines: Machines, serial: list[Any], tmp_path: Path, record_property: Record
) -> None:
    told(record_property, "mixed versions", "dask", 2, 24)
    right = machines.worker()
    wrong = machines.worker(path=[another_version(tmp_path / "other")])
    # Then the other gets some for certain.
    machines.hold(right)
    swept, store = sweep(), mw.Store(tmp_path / "store")
    with machines.cluster(2) as cluster:
        with pytest.raises(mw.StoreError, match="install the same build of makeway on every machine"):
            swept.run(store, on=cluster)
        assert len(store) == 0
        wrong.kill()
        machines.release()
        until(lambda: cluster.workers() == 1, "the other worker alone")
        swept.run(store, on=cluster)
    assert table(store, swept) == serial
    assert set(store.runs(swept)["code"]) == {mw.SIMULATOR}


def test_a_killed_process_of_a_pool_breaks_the_pool_and_not_the_store(
    machines: Machines, serial: list[Any], tmp_path: Path, record_property: Record
) -> None:
    told(record_property, "SIGKILL of a worker", "pool", 2, 24)
    machines.hold()

    def kill() -> None:
        until(lambda: machines.has("begin"), "a chunk")
        os.kill(machines.log()[0][1], signal.SIGKILL)

    swept = sweep()
    with ProcessPoolExecutor(2) as pool, machines.meanwhile(kill), pytest.raises(BrokenProcessPool):
        swept.run(tmp_path / "store", on=pool)
    store = swept.run(tmp_path / "store")
    assert swept.summary.complete
    assert table(store, swept) == serial
