# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs of a sweep on any `concurrent.futures.Executor`, and on Dask.

Chunks take about five seconds by measured times, and less towards the end; the longest runs come first. Workers return the
files of a part, and only this process writes to the store. A worker that dies costs its chunk, which is made again.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from makeway import _makeway

if TYPE_CHECKING:
    from collections.abc import Callable

Chunk = list[tuple[int, int]]
"""Points and replications."""

SECONDS = 5.0
"""Of a chunk."""
AHEAD = 2
"""Chunks that each worker has, the one it runs included, so that it never waits for the driver."""
TRIES = 3
"""Of a chunk whose worker died or whose result did not come."""


@dataclass(frozen=True)
class Cluster:
    """Executor and number of its workers."""

    executor: Executor
    workers: Callable[[], int]
    close: Callable[[], None]


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

    # A run is no pure function for Dask: a chunk that is asked for again is made again.
    return Cluster(client.get_executor(pure=False, retries=0), threads, close)


def run_chunk(plan: str, chunk: Chunk) -> tuple[bytes, bytes, list[tuple[int, float]], int]:
    """On a worker. The worker's module is found by its name."""
    return _makeway.run_chunk(plan, chunk)


def run_on(
    on: Executor | Cluster,
    store: _makeway.Store,
    plan: _makeway.Plan,
    workers: int | None,
    shard: str,
    again: bool,
    progress: Callable[[dict[str, float]], None] | None,
) -> dict[str, Any]:
    """Makes the missing runs of `plan` on an executor."""
    executor = on.executor if isinstance(on, Cluster) else on
    known = on.workers() if isinstance(on, Cluster) else int(getattr(on, "_max_workers", 0))
    count = workers or known or os.cpu_count() or 1
    store.begin(plan)
    missing = store.missing(plan, shard, again)
    began = time.monotonic()
    every = plan.runs if shard == "1/1" else len(missing) + _done(store, plan, shard, again)
    counts: dict[str, float] = {
        "runs": every, "kept": every - len(missing), "made": 0, "failed": 0, "busy_s": 0.0, "elapsed_s": 0.0, "workers": count,
    }  # fmt: skip
    queue = _makeway.Queue(missing)
    text = plan.json()
    running: dict[Future[Any], tuple[Chunk, int]] = {}

    def submit(chunk: Chunk, tries: int) -> None:
        running[executor.submit(run_chunk, text, chunk)] = (chunk, tries)

    try:
        while len(queue) or running:
            while len(queue) and len(running) < AHEAD * count:
                # Towards the end chunks get shorter, so that workers end together.
                share = queue.left() / (2 * count)
                submit(queue.chunk(min(SECONDS, max(share, SECONDS / 50))), 1)
            done, _ = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
            for future in done:
                chunk, tries = running.pop(future)
                error = future.exception()
                if isinstance(error, (_makeway.StoreError, _makeway.ScenarioError, KeyboardInterrupt)) or (
                    error and tries >= TRIES
                ):
                    raise error
                if error:
                    submit(chunk, tries + 1)
                    continue
                runs, figures, times, failed = future.result()
                store.commit(runs, figures)
                for point, seconds in times:
                    queue.measure(point, seconds)
                counts["made"] += len(times)
                counts["failed"] += failed
                counts["busy_s"] += sum(seconds for _, seconds in times)
            counts["elapsed_s"] = time.monotonic() - began
            if progress:
                progress(counts)
    finally:
        for future in running:
            future.cancel()
    return counts


def _done(store: _makeway.Store, plan: _makeway.Plan, shard: str, again: bool) -> int:
    """Runs of a shard that the store has."""
    number, of = (int(part) for part in shard.split("/"))
    runs = len(range(number - 1, plan.runs, of))
    return runs - len(store.missing(plan, shard, again))
