# SPDX-License-Identifier: MIT OR Apache-2.0
"""A Dask cluster of processes that a test can kill, stop and cut off, and what a sweep must look like afterwards."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import dask.config

# Before a setting of it, at whose end its defaults would go too.
import distributed  # noqa: F401 # pyright: ignore[reportUnusedImport]
import gate
import makeway as mw

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

T = TypeVar("T")

HERE = Path(__file__).resolve().parent
TEXT = (HERE.parents[2] / "store/src/sample.toml").read_text()
DISCIPLINE = "link.line.queue.discipline"

PATIENCE_S = 90
"""For a condition, on a machine however busy. No test waits for a time to pass."""


def sweep() -> mw.Sweep:
    """24 runs of some milliseconds."""
    axes: Any = {DISCIPLINE: ["fifo", "sqf"], "link.line.rate": ["1mbit", "2mbit"]}
    return mw.Scenario(TEXT).sweep(axes, replications=6)


def table(store: mw.Store, of: mw.Sweep) -> list[Any]:
    """All results of a sweep; not how long runs took, nor where."""
    runs = store.runs(of)
    return [*store.figures(of).rows(), *zip(runs["key"], runs["fingerprint"], runs["hops"], runs["status"], strict=True)]


def told(record: Callable[[str, object], None], case: str, engine: str, workers: int, runs: int) -> None:
    """Properties of a test, of which `make bench-sweep` makes a row."""
    for name, value in (("case", case), ("engine", engine), ("workers", workers), ("runs", runs)):
        record(name, value)


def parts(folder: Path) -> int:
    return len(list((folder / "runs").glob("*.parquet")))


def until(condition: Callable[[], T], what: str) -> T:
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what}: not in {PATIENCE_S} s"
        time.sleep(0.01)
    return found


class Machines:
    """Processes, with a folder for their logs. `with` ends them all."""

    def __init__(self, folder: Path, host: str = "127.0.0.1") -> None:
        self.folder, self.host = folder, host
        self.programs: list[subprocess.Popen[bytes]] = []
        folder.mkdir(parents=True, exist_ok=True)
        os.environ[gate.FOLDER] = str(folder)

    @cached_property
    def scheduler(self) -> subprocess.Popen[bytes]:
        return self.start("scheduler", "--port", "0", "--host", self.host, "--scheduler-file", str(self.folder / "address"))

    def __enter__(self) -> Machines:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
        for program in self.programs:
            program.kill()
            program.wait()

    def start(
        self, kind: str, *arguments: str, prefix: Sequence[str] = (), path: Sequence[str | Path] = ()
    ) -> subprocess.Popen[bytes]:
        """A scheduler or a worker of Dask, in modules of `path` first, which dies with this process."""
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([*map(str, path), str(HERE), os.environ.get("PYTHONPATH", "")]),
            "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "20s",
        }
        command = [*prefix, sys.executable, "-m", f"distributed.cli.dask_{kind}", "--no-dashboard", *arguments]
        libc = ctypes.CDLL(None)
        with (self.folder / f"{kind}-{len(self.programs)}.log").open("wb") as log:
            program = subprocess.Popen(
                command,
                env=environment,
                cwd=self.folder,
                stdout=log,
                stderr=log,
                preexec_fn=lambda: libc.prctl(1, signal.SIGKILL),  # PR_SET_PDEATHSIG
            )
        self.programs.append(program)
        return program

    @property
    def address(self) -> str:
        scheduler = self.scheduler

        def written() -> str | None:
            assert scheduler.poll() is None, self.said()
            try:
                return json.loads((self.folder / "address").read_text())["address"]
            except (OSError, ValueError):
                return None

        return until(written, "the address of the scheduler") or ""

    def said(self) -> str:
        return "\n".join(path.read_text() for path in self.folder.glob("*.log"))

    def worker(
        self, *, prefix: Sequence[str] = (), path: Sequence[str | Path] = (), host: str | None = None
    ) -> subprocess.Popen[bytes]:
        """A process with one thread, without a nanny, so that it stays dead."""
        options = ("--nthreads", "1", "--no-nanny", "--memory-limit", "0", "--local-directory", str(self.folder))
        return self.start("worker", self.address, *options, "--host", host or self.host, prefix=prefix, path=path)

    @contextmanager
    def cluster(self, workers: int) -> Generator[mw.Cluster]:
        """Of this number of workers, once they are there."""
        # A client waits this long for a scheduler that is gone, and longer when it closes.
        with dask.config.set({"distributed.comm.timeouts.connect": "5s"}):
            cluster = mw.dask(self.address)
        try:
            until(lambda: cluster.workers() == workers, f"{workers} workers")
            yield cluster
        finally:
            cluster.close()

    def hold(self, worker: subprocess.Popen[bytes] | None = None) -> None:
        """Chunks of this worker, or of all, wait at their begin."""
        (self.folder / f"hold-{worker.pid if worker else 'all'}").touch()

    def release(self) -> None:
        for path in self.folder.glob("hold-*"):
            path.unlink()

    def log(self) -> list[tuple[str, int, str]]:
        """`begin` or `end`, process, chunk."""
        path = self.folder / "log"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(what, int(pid), chunk) for what, pid, chunk in map(str.split, lines)]

    def has(self, what: str, worker: subprocess.Popen[bytes] | None = None) -> bool:
        """Whether a chunk has begun, or ended, on this worker or on any."""
        return any(kind == what and worker in (None, *self._of(pid)) for kind, pid, _ in self.log())

    def _of(self, pid: int) -> list[subprocess.Popen[bytes]]:
        return [program for program in self.programs if program.pid == pid]

    def count(self, what: str) -> int:
        return sum(kind == what for kind, _, _ in self.log())

    def repeated(self) -> int:
        """Chunks that were begun more than once."""
        begun = [chunk for what, _, chunk in self.log() if what == "begin"]
        return len(begun) - len(set(begun))

    @contextmanager
    def meanwhile(self, fault: Callable[[], None]) -> Generator[None]:
        """Does `fault` beside the body, and lets all chunks go on when it is done."""

        def then_go_on() -> None:
            try:
                fault()
            finally:
                self.release()

        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(then_go_on)
            yield
            done.result()
