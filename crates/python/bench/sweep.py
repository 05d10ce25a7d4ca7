# SPDX-License-Identifier: MIT OR Apache-2.0
"""How much of the workers' time a sweep's runs take: on threads, on Dask, on a pool, cold and warm.

    make bench-sweep                              10 000 runs of about 20 ms, out/sweep.json
    python crates/python/bench/sweep.py --runs 500 --out out/sweep.json

`scheduling` is the processor time of the runs / (workers * makespan), so other programs of the machine lower it; `overall`
counts the start of workers and the opening of the store too; `identical`: the figures are those of the first case. A warm case
finds every run in its store.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import makeway as mw

if TYPE_CHECKING:
    from collections.abc import Callable

SAMPLE = Path(__file__).parents[2] / "store/src/sample.toml"
WIDER = {"duration": "60s", "warmup": "1s", "link.line.rate": "10mbit", "link.line.queue.limit": "100 packets"}
RUN_S = 0.02
POINTS = 20


def scenario() -> mw.Scenario:
    """Of such a length that a run takes about 20 ms here."""
    base = mw.Scenario(SAMPLE).set(WIDER)
    base.run()
    began = time.process_time()
    for replication in range(5):
        base.run(replication)
    seconds = base.duration_s * RUN_S / ((time.process_time() - began) / 5)
    return base.set({"duration": f"{max(seconds, 2):.1f}s"})


def digest(store: mw.Store, sweep: mw.Sweep) -> str:
    table = store.figures(sweep)
    return hashlib.sha256(repr([table[name] for name in table.columns]).encode()).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=Path("out/sweep.json"))
    arguments = parser.parse_args()
    workers: int = arguments.workers
    values = mw.lin("5mbit", "20mbit", POINTS)
    sweep = scenario().sweep({"link.line.rate": values}, replications=max(arguments.runs // POINTS, 1))
    rows: list[dict[str, Any]] = []
    first = ""
    with tempfile.TemporaryDirectory() as folder:

        def case(engine: str, name: str, run: Callable[[Path], mw.Store]) -> None:
            nonlocal first
            began = time.monotonic()
            store = run(Path(folder) / engine)
            whole = time.monotonic() - began
            summary, found = sweep.summary, digest(store, sweep)
            first = first or found
            row = {
                "case": name,
                "engine": engine,
                "workers": summary.workers,
                "runs": summary.made,
                "scheduling": round(summary.scheduling, 4),
                "overall": round(summary.busy_s / (whole * summary.workers), 4),
                "makespan_s": round(summary.elapsed_s, 3),
                "identical": found == first,
            }
            print(json.dumps(row), flush=True)
            rows.append(row)

        def on_dask(path: Path) -> mw.Store:
            with closing(mw.dask(workers=workers)) as cluster:
                return sweep.run(path, on=cluster)

        def on_pool(path: Path) -> mw.Store:
            with ProcessPoolExecutor(workers) as pool:
                return sweep.run(path, on=pool)

        for name in ("cold", "warm"):
            case("threads", name, lambda path: sweep.run(path, workers=workers))
        for name in ("cold", "warm"):
            case("dask", name, on_dask)
        case("pool", "cold", on_pool)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
