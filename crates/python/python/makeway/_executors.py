# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs of sweeps on any `concurrent.futures.Executor`, on Dask and on Ray.

Chunks take about five seconds by measured times, and less towards the end; the longest runs come first. Workers return the
files of a part, which are columns already, with their hashes, and only this process writes to the store. A worker that dies
costs its chunk, which is made again; one that does not answer costs no more, since others make its chunks too at the end. On
Dask a sweep whose workers are all silent ends with an error.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from bisect import bisect_right
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, cast

from makeway import _makeway

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from makeway._makeway import Done

Jobs = list[tuple[int, int]]
"""Points and replications of a sweep."""

SECONDS = 5.0
"""Of a chunk."""
TRIES = 3
"""Of a chunk whose worker died, or does not answer."""
LATE_S = 30.0
"""A chunk that takes longer than this, and than three times the slowest before it, is sent once more, when no others are left
and workers are idle."""
ASK_S = 2.0
"""Time for which the names of Dask's workers are kept. They are one answer of the scheduler: if it were asked before each chunk,
hundreds of workers would wait for it."""
LEAST = 1 / 50
"""Of a chunk, as a share of `SECONDS`."""
LEAST_BY_WORKER = 1 / 500
"""The same, times the number of workers, which ask for 100 chunks a second at most then. The driver sends each, and
writes its part."""
SILENT_S = 600.0
SILENT_CHUNKS = 50
"""After this time without a result, and this many times the time of the slowest chunk, chunks of workers that are silent are sent
to others; if all are silent, the sweep ends. Dask itself drops a worker after 5 min, its worker-ttl, and gives the chunk to
another, if there is one."""
HEARD_S = 60.0
"""Dask's workers tell the scheduler every few seconds that they are there, during runs too. Those that have not for this time are
silent."""


@dataclass(frozen=True)
class Cluster:
    """Executor and number of its workers."""

    executor: Executor
    workers: Callable[[], int]
    close: Callable[[], None]
    lost: Callable[[], bool] = lambda: False
    """Whether it is gone, and its work with it."""
    silent: Callable[[], tuple[dict[Future[Any], str], bool]] = lambda: ({}, True)
    """Work on workers that are silent, with their names; and whether there are others."""


def dask(address: str | None = None, *, workers: int | None = None) -> Cluster:
    """Runs on Dask: `sweep.run(store, on=mw.dask("tcp://head:8786"))`. Needs `pip install makeway[dask]`, on the workers too.

    Args:
        address: of the scheduler; a cluster of processes on this machine, if None.
        workers: processes of such a cluster; one for each core, if None.
    """
    # Imported here: Dask is only needed by those who use it.
    from distributed import Client

    if address is None:
        client = Client(n_workers=workers or os.cpu_count() or 1, threads_per_worker=1, processes=True, dashboard_address=None)
    else:
        client = Client(address)

    def threads() -> int:
        return sum(cast("dict[str, int]", client.nthreads()).values())

    def close() -> None:
        client.close()
        if client.cluster is not None:
            client.cluster.close()

    spread = _Spread(client)
    return Cluster(spread, threads, close, lambda: client.status != "running", spread.on_silent)


class _Spread(Executor):
    """Chunks on the threads of Dask's workers that answer and have none of ours. Dask itself places them by its estimates, and
    may give two to one worker while another has nothing to do; of a worker that is cut off both are lost then."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.under_way: dict[Future[Any], str] = {}
        self.threads: dict[str, int] = {}
        """Of each worker, when the scheduler was last asked."""
        self.silent: set[str] = set()
        self.asked = -math.inf
        self.ahead = math.inf
        """Least time since the last word of a worker, of all answers: nearly what the scheduler's clock is behind ours."""

    def ask(self) -> None:
        # Of a scheduler that is gone the futures tell.
        if self.client.status != "running":
            return
        try:
            workers: dict[str, Any] = self.client.sync(self.client.scheduler.identity, callback_timeout=30)["workers"]
        except (OSError, asyncio.TimeoutError):
            self.silent = set(self.threads)
            return
        now = time.time()
        since = {name: now - worker["last_seen"] for name, worker in workers.items()}
        self.ahead = min([self.ahead, *since.values()])
        self.silent = {name for name, seconds in since.items() if seconds - self.ahead > HEARD_S}
        self.threads = {name: worker["nthreads"] for name, worker in workers.items()}

    def on_silent(self) -> tuple[dict[Future[Any], str], bool]:
        self.ask()
        others = bool(self.threads.keys() - self.silent)
        under_way = {future: where for future, where in self.under_way.items() if not future.done()}
        # Dask has given the chunk of a worker that is gone to another, if there is one.
        return {future: where for future, where in under_way.items() if where in self.silent or not others}, others

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.under_way = {future: where for future, where in self.under_way.items() if not future.done()}
        taken = Counter(self.under_way.values())
        if time.monotonic() - self.asked > ASK_S:
            self.ask()
            # After the answer, for which a driver may have waited longer than that.
            self.asked = time.monotonic()
        # A name that is wished for, and no condition: the chunk of a worker that is gone goes to another.
        names = [name for name in self.threads if name not in self.silent] or list(self.threads)
        where = max(names, key=lambda name: self.threads[name] - taken[name], default=None)
        wished = {"workers": [where], "allow_other_workers": True} if where else {}
        # A run is no pure function for Dask: a chunk that is asked for again is made again.
        executor = self.client.get_executor(pure=False, retries=0, **wished)
        future = cast("Future[Any]", executor.submit(fn, *args, **kwargs))
        if where:
            self.under_way[future] = where
        return future


@dataclass(eq=False)
class Chunk:
    """Runs that travel together."""

    jobs: list[tuple[int, Jobs]]
    """Numbers of sweeps, and the jobs of each."""
    tries: int = 0
    sent: float = 0.0
    """When it was last sent."""
    done: bool = False


def run_chunk(work: list[tuple[str, Jobs]]) -> Done:
    """On a worker: jobs of plans. The worker's module is found by its name."""
    return _makeway.run_chunk(work)


def run_on(
    on: Executor | Cluster,
    store: _makeway.Store,
    plans: Sequence[_makeway.Plan],
    workers: int | None,
    shard: str,
    again: bool,
    progress: Callable[[dict[str, float]], None] | None,
) -> dict[str, Any]:
    """Makes the missing runs of sweeps on an executor."""
    cluster = on if isinstance(on, Cluster) else Cluster(on, lambda: int(getattr(on, "_max_workers", 0)), lambda: None)
    count = workers or cluster.workers() or os.cpu_count() or 1
    store.begin(plans)
    missing = store.missing(plans, shard, again)
    runs = sum(_size(plan, shard) for plan in plans)
    began = time.monotonic()
    counts: dict[str, float] = {
        "runs": runs, "kept": runs - sum(map(len, missing)), "made": 0, "failed": 0,
        "busy_s": 0.0, "cpu_s": 0.0, "elapsed_s": 0.0, "workers": count,
    }  # fmt: skip
    # Points of all sweeps have one row of numbers; these are the first of each.
    starts = [0, *accumulate(plan.points for plan in plans)]
    queue = _makeway.Queue([(start + point, r) for start, jobs in zip(starts, missing, strict=False) for point, r in jobs])
    texts: dict[int, str] = {}
    running: dict[Future[Done], Chunk] = {}
    slowest, heard = 0.0, began

    def text(number: int) -> str:
        if number not in texts:
            texts[number] = plans[number].json()
        return texts[number]

    def next_chunk() -> Chunk:
        # Towards the end chunks get shorter, so that workers end together.
        share, least = queue.left() / (2 * count), SECONDS * max(LEAST, LEAST_BY_WORKER * count)
        jobs: dict[int, Jobs] = {}
        for place, replication in queue.chunk(min(SECONDS, max(share, least))):
            number = bisect_right(starts, place) - 1
            jobs.setdefault(number, []).append((place - starts[number], replication))
        return Chunk(list(jobs.items()))

    def send(chunk: Chunk) -> None:
        chunk.tries += 1
        chunk.sent = time.monotonic()
        running[cluster.executor.submit(run_chunk, [(text(number), jobs) for number, jobs in chunk.jobs])] = chunk

    def fill() -> None:
        # A chunk for each worker: all that a fault can cost.
        while len(queue) and len(running) < count:
            send(next_chunk())

    def take(chunk: Chunk, part: Done) -> None:
        chunk.done = True
        # Of a chunk that was sent twice the first result counts.
        for other in [future for future, of in running.items() if of is chunk]:
            del running[other]
            other.cancel()
        files, times, busy, failed = part
        for (number, _), of_plan in zip(chunk.jobs, times, strict=True):
            for point, seconds in of_plan:
                queue.measure(starts[number] + point, seconds)
        # The worker goes on while its part is written.
        fill()
        store.commit(*files)
        counts["made"] += sum(map(len, times))
        counts["failed"] += failed
        counts["busy_s"] += busy
        counts["cpu_s"] += sum(seconds for of_plan in times for _, seconds in of_plan)

    def wake() -> None:
        """Sends chunks of silent workers to others, if there are others."""
        names, others = cluster.silent()
        where: dict[Chunk, list[str]] = {}
        for future, chunk in running.items():
            where.setdefault(chunk, []).append(names.get(future, ""))
        # Of a chunk that was sent twice one worker may still answer.
        stuck = {chunk: of for chunk, of in where.items() if all(of)}
        if stuck and not (others and all(chunk.tries < TRIES for chunk in stuck)):
            said = "; ".join(f"{', '.join(of)} with {_named(chunk, plans)}" for chunk, of in stuck.items())
            raise _ended(f"no result for {time.monotonic() - heard:.0f} s, and these workers do not answer: {said}", counts)
        for chunk in stuck:
            send(chunk)

    try:
        while len(queue) or running:
            fill()
            done, _ = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
            for future in done:
                chunk = running.pop(future, None)
                if chunk is None or chunk.done:
                    continue
                if future.cancelled():
                    raise _gone(counts)
                if error := _error(future):
                    if isinstance(error, (_makeway.StoreError, _makeway.ScenarioError, KeyboardInterrupt)):
                        raise error
                    # Not if it is under way a second time.
                    if chunk not in running.values():
                        if chunk.tries >= TRIES:
                            raise error
                        send(chunk)
                    continue
                slowest = max(slowest, time.monotonic() - chunk.sent)
                take(chunk, future.result())
            if done:
                heard = time.monotonic()
            elif cluster.lost():
                # A result that was on its way then never comes.
                raise _gone(counts)
            elif time.monotonic() - heard > max(SILENT_S, SILENT_CHUNKS * slowest):
                wake()
                heard = time.monotonic()
            if slowest and not len(queue):
                late = time.monotonic() - max(LATE_S, 3 * slowest)
                for chunk in dict.fromkeys(running.values()):
                    if chunk.sent < late and chunk.tries < TRIES and len(running) < count:
                        send(chunk)
            counts["elapsed_s"] = time.monotonic() - began
            if progress:
                progress(counts)
    finally:
        for future in running:
            future.cancel()
    return counts


def _gone(counts: dict[str, float]) -> ConnectionError:
    return _ended("the executor has dropped its work, as Dask does when the connection to its scheduler is lost", counts)


def _ended(why: str, counts: dict[str, float]) -> ConnectionError:
    done = counts["kept"] + counts["made"]
    return ConnectionError(f"{why}: {done:.0f} of {counts['runs']:.0f} runs are in the store; run the sweep again for the others")


def _named(chunk: Chunk, plans: Sequence[_makeway.Plan]) -> str:
    """A chunk by its first run."""
    number, jobs = chunk.jobs[0]
    point, replication = jobs[0]
    return f"the chunk that begins at point {point}, replication {replication} of {plans[number].title!r}"


def _error(future: Future[Any]) -> BaseException | None:
    """Why a chunk has no result. Ray wraps the exception of a worker in one of its own."""
    error = future.exception()
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, BaseException) else error


def _size(plan: _makeway.Plan, shard: str) -> int:
    """Runs of a shard."""
    number, of = (int(part) for part in shard.split("/"))
    return len(range(number - 1, plan.runs, of))
