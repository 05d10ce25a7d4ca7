# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sweeps measured: how much of the workers' time runs take, on threads, on Dask and on a pool; whole studies on threads and on
Dask; faults; and a store of a million runs.

    make bench-sweep                                         all of it: three quarters of an hour on two cores; out/sweep.json
    python crates/python/bench/sweep.py --only engines --runs 500

A row of the array has `case`, `engine`, `workers`, `runs`, `scheduling`, `overall`, `makespan_s`, `identical`:

- `scheduling`: time that the runs took by the clock / (workers * makespan); of the scheduler and the driver alone, since a run
  that another program of the machine slows down is longer in both;
- `overall`: processor time of the runs / (workers * time from the first line of the script to the last), the start of workers
  and the opening of the store included;
- `identical`: the figures are those of the first case, of a fault and of a study the whole table that of a serial run;
- `met`, where there is a bar (`AT_LEAST` and `AT_MOST` below). The last lines, on standard error, are the bars that are missed.

Exit status: 1 if a result is not identical, or a part failed; the others are measured then.

Parts, for --only:

- `engines`: 10 000 runs of about 20 ms. `cold` starts the workers, `warm` has them from before, both with an empty store; `kept`
  finds every run in its store; `contended` has a busy process on each core beside it, and a quarter of the runs;
- `chunks`: shorter and shorter chunks on Dask; the last row is the shortest whose `scheduling` is 0.9 or more, `chunk_s`;
- `others`: the same number of runs by `makeway run` in a shell loop, one after the other (a fifth of them) and as many at a time
  as there are workers, and by SEM where it is installed: their `makespan_s`;
- `studies`: every cell of a paper and of the gauntlet, as `makeway-lab --plans` writes them, on one thread, on all and on Dask.
  `identical` compares each run's figures and report, and the program's verdicts, with those of one thread. A replication of the
  paper, whose runs take ten minutes each in simulated time, and two of the gauntlet: some seven minutes on two cores. `--full`:
  ten of each, some fifty minutes;
- `faults`: processes that are killed or stopped, links with delay, loss and a partition, a full disk, a truncated part, mixed
  versions. `lost_chunks` were begun and made again;
- `replays`: 64 and 256 workers that sleep for the times that the runs took: of the scheduler and the driver only. Dask's workers
  are threads of this process then, so that they contend for its interpreter; `--replayed` names other numbers of them;
- `store`: a million short runs, really made: `scan_s` opens the store, `query_s` is the estimates of one point,
  `query_all_s` those of all points; `bytes_per_run` on the disk.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import patch

import faults
import makeway as mw
from makeway import _executors
from makeway._sweep import Bar
from studies import studies

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from makeway._executors import Jobs
    from makeway._makeway import Done

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
BUILT = ROOT / "target/bench-sweep/release"
SAMPLE = ROOT / "crates/store/src/sample.toml"
RATE = "link.line.rate"
WIDER = {"duration": "60s", "warmup": "1s", RATE: "10mbit", "link.line.queue.limit": "100 packets"}
RUN_S = 0.02
POINTS = 20
RATES = mw.lin("5mbit", "20mbit", POINTS)
PARTS = ("engines", "chunks", "others", "studies", "faults", "replays", "store")
AT_LEAST = {("cold", "scheduling"): 0.95, ("warm", "scheduling"): 0.95, ("contended", "scheduling"): 0.9}
"""Bars of figures, by their cases."""
AT_MOST = {("store", "scan_s"): 10.0, ("store", "query_s"): 1.0}
CHUNKS = (5.0, 2.0, 1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
"""Seconds."""
REPLAY_S = 60
"""Of the replays."""
REPLAYED = (64, 256)
"""Workers of the replays."""
QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "10s",
}
"""Of Dask's workers in one interpreter. Each otherwise samples its threads every 10 ms, with a look at all threads of the
process, counts a tick every 20 ms and reads /proc twice a second: 256 workers make 39 000 calls a second, more than a second's
work."""


def scenario() -> mw.Scenario:
    """Of such a length that a run takes about 20 ms here."""
    base = mw.Scenario(SAMPLE).set(WIDER)
    base.run()
    began = time.process_time()
    for replication in range(5):
        base.run(replication)
    seconds = base.duration_s * RUN_S / ((time.process_time() - began) / 5)
    return base.set({"duration": f"{max(seconds, 2):.1f}s"})


def missed(row: dict[str, Any]) -> list[str] | None:
    """Bars that a row misses; None if it has none."""
    judged: list[tuple[bool, str]] = []
    for bars, word in ((AT_LEAST, "at least"), (AT_MOST, "at most")):
        for (case, figure), bar in bars.items():
            if case == row["case"] and (value := row.get(figure)) is not None:
                is_met = value >= bar if bars is AT_LEAST else value <= bar
                judged.append((is_met, f"{case}, {row['engine']}: {figure} {value}, {word} {bar:g}"))
    return [said for is_met, said in judged if not is_met] if judged else None


def sweep_of(base: mw.Scenario, runs: int) -> mw.Sweep:
    return base.sweep({RATE: RATES}, replications=max(runs // POINTS, 1))


def digest(store: mw.Store, sweep: mw.Sweep) -> str:
    table = store.figures(sweep)
    return hashlib.sha256(repr([table[name] for name in table.columns]).encode()).hexdigest()


@contextmanager
def busy_cores() -> Generator[None]:
    spin = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for process in spin:
            process.kill()
            process.wait()


class Bench:
    """Rows, and what they share."""

    def __init__(self, arguments: argparse.Namespace, folder: Path) -> None:
        self.runs: int = arguments.runs
        self.workers: int = arguments.workers
        self.store_runs: int = arguments.store_runs
        self.replayed: list[int] = arguments.replayed
        self.makeway: Path = arguments.makeway
        self.lab: Path = arguments.lab
        self.full: bool = arguments.full
        self.sem: Path = arguments.sem
        self.folder = folder
        self.rows: list[dict[str, Any]] = []
        self.misses: list[str] = []
        self.base = scenario()
        self.digests: dict[int, str] = {}
        self.stores = 0

    def row(self, case: str, engine: str, workers: int, runs: int, **more: Any) -> None:
        form = dict.fromkeys(("scheduling", "overall", "makespan_s", "identical"))
        row = {"case": case, "engine": engine, "workers": workers, "runs": runs, **form, **more}
        if (misses := missed(row)) is not None:
            row["met"] = not misses
            self.misses += misses
        print(json.dumps(row), flush=True)
        self.rows.append(row)

    def new_store(self) -> Path:
        self.stores += 1
        return self.folder / str(self.stores)

    def swept(self, case: str, engine: str, sweep: mw.Sweep, began: float, run: Callable[[], mw.Store]) -> mw.Summary:
        """Runs a sweep, and adds its row."""
        store = run()
        whole = time.monotonic() - began
        summary, found = sweep.summary, digest(store, sweep)
        # Where all runs were kept there is nothing to schedule.
        share = (summary.scheduling, summary.cpu_s / (whole * summary.workers)) if summary.made else (None, None)
        scheduling, overall = (None if one is None else round(one, 4) for one in share)
        self.row(
            case, engine, summary.workers, summary.runs,
            scheduling=scheduling,
            overall=overall,
            makespan_s=round(summary.elapsed_s, 3),
            identical=found == self.digests.setdefault(len(sweep), found),
        )  # fmt: skip
        return summary

    def engines(self) -> None:
        whole, part = sweep_of(self.base, self.runs), sweep_of(self.base, self.runs // 4)
        began = time.monotonic()

        def on_threads(sweep: mw.Sweep, store: Path) -> Callable[[], mw.Store]:
            return lambda: sweep.run(store, workers=self.workers)

        first = self.new_store()
        self.swept("cold", "threads", whole, began, on_threads(whole, first))
        self.swept("warm", "threads", whole, time.monotonic(), on_threads(whole, self.new_store()))
        self.swept("kept", "threads", whole, time.monotonic(), on_threads(whole, first))
        with busy_cores():
            self.swept("contended", "threads", part, time.monotonic(), on_threads(part, self.new_store()))
        began = time.monotonic()
        with closing(mw.dask(workers=self.workers)) as cluster:
            first = self.new_store()
            for case, path in (("cold", first), ("warm", self.new_store()), ("kept", first)):
                self.swept(case, "dask", whole, began, lambda path=path: whole.run(path, on=cluster))
                began = time.monotonic()
            with busy_cores():
                path = self.new_store()
                self.swept("contended", "dask", part, time.monotonic(), lambda: part.run(path, on=cluster))
        began = time.monotonic()
        with ProcessPoolExecutor(self.workers) as pool:
            self.swept("cold", "pool", whole, began, lambda: whole.run(self.new_store(), on=pool))

    def chunks(self) -> None:
        sweep = sweep_of(self.base, min(self.runs, 1500 * self.workers))
        shortest = None
        with closing(mw.dask(workers=self.workers)) as cluster:
            # The modules are loaded, and Dask knows how long a task takes.
            sweep_of(self.base, 10 * POINTS).run(self.new_store(), on=cluster)
            for seconds in CHUNKS:
                with patch.object(_executors, "SECONDS", seconds):
                    began, path = time.monotonic(), self.new_store()
                    done = self.swept(f"chunk {seconds:g} s", "dask", sweep, began, lambda path=path: sweep.run(path, on=cluster))
                if done.scheduling < 0.9:
                    break
                shortest = seconds
        self.row("shortest chunk at 0.9", "dask", self.workers, len(sweep), chunk_s=shortest)

    def others(self) -> None:
        if not self.makeway.exists():
            print(f"no {self.makeway}: no other ways to run scenarios are measured", file=sys.stderr)
            return
        text, _, _ = self.base._inner.source
        file = self.folder / "scenario.toml"
        file.write_text(text)
        run = [str(self.makeway), "run", str(file), "--world", "sim"]
        for setting in self.base._inner.settings:
            run += ["--set", setting]
        one = '"$@" --set link.line.rate=$rate --set seed=$seed > /dev/null || exit 1'
        replications = max(self.runs // POINTS, 1)
        loops = f"for rate in {' '.join(RATES)}; do for seed in $(seq {{}}); do {{}}; done; done"
        few = max(replications // 5, 1)
        parallel = f"rate=$1 seed=$2; shift 2; {one}"
        # `xargs -n 2` puts a rate and a seed behind the words of its command: they are turned to the front.
        turned = 'n=$#; while [ $n -gt 2 ]; do set -- "$@" "$1"; shift; n=$((n - 1)); done; ' + parallel
        command = loops.format(replications, 'echo "$rate $seed"') + f" | xargs -P {self.workers} -n 2 sh -c '{turned}' sh \"$@\""
        for case, workers, count, script in (
            ("one by one", 1, few, loops.format(few, one)),
            ("xargs", self.workers, replications, command),
        ):
            began = time.monotonic()
            subprocess.run(["sh", "-c", script, "sh", *run], check=True)
            self.row(case, "shell", workers, count * POINTS, makespan_s=round(time.monotonic() - began, 3))
        if not self.sem.exists():
            print(f"no {self.sem}: SEM is not measured", file=sys.stderr)
            return
        campaign = [str(self.sem), str(HERE / "with_sem.py"), str(self.folder / "sem"), str(self.workers), str(replications)]
        found = subprocess.run([*campaign, ",".join(RATES), *run], check=True, stdout=subprocess.PIPE, text=True)
        makespan = float(found.stdout.split()[-1])
        self.row("cold", "sem", self.workers, replications * POINTS, makespan_s=round(makespan, 3))

    def studies(self) -> None:
        if not self.lab.exists():
            print(f"no {self.lab}: no study is made", file=sys.stderr)
            return
        for study in studies(self.lab, self.folder / "studies", self.full):
            print(f"{study.name}: the program writes its plans", file=sys.stderr)
            sweeps = study.plans()
            digests: list[str] = []
            for engine in ("one thread", "threads", "dask"):
                print(f"{study.name}: {len(sweeps)} sweeps on {engine}", file=sys.stderr)
                began, path = time.monotonic(), study.store(engine)
                if engine == "dask":
                    with closing(mw.dask(workers=self.workers)) as cluster:
                        done = mw.run_all(sweeps, path, on=cluster, progress=True)
                else:
                    workers = self.workers if engine == "threads" else 1
                    done = mw.run_all(sweeps, path, workers=workers, progress=True)
                whole = time.monotonic() - began
                print(f"{study.name}: {done.made} runs in {whole:.0f} s; the program judges them", file=sys.stderr)
                digests.append(study.digest(engine))
                self.row(
                    study.name, "threads" if engine == "one thread" else engine, done.workers, done.made,
                    scheduling=round(done.scheduling, 4),
                    overall=round(done.cpu_s / (whole * done.workers), 4),
                    makespan_s=round(done.elapsed_s, 3),
                    identical=digests[-1] == digests[0] if len(digests) > 1 else None,
                    failed=done.failed,
                )  # fmt: skip

    def faults(self) -> None:
        for fault in faults.made():
            self.row(
                fault.case, fault.engine, fault.workers, fault.runs,
                makespan_s=round(fault.seconds, 3), identical=fault.passed, **fault.more,
            )  # fmt: skip

    def replays(self) -> None:
        sweep = sweep_of(self.base, 10 * POINTS)
        store = sweep.run(self.new_store(), workers=1)
        runs = store.runs(sweep)
        times: dict[str, list[float]] = {}
        for rate, nanoseconds in zip(runs[RATE], runs["cpu_ns"], strict=True):
            times.setdefault(rate, []).append(nanoseconds / 1e9)
        DURATIONS[:] = times.values()
        mean = sum(map(sum, DURATIONS)) / len(sweep)
        for workers in self.replayed or REPLAYED:
            replayed = Replayed(max(int(workers * REPLAY_S / mean) // POINTS, 1))
            for engine in ("pool", "dask"):
                print(f"{workers} workers that sleep, on {engine}", file=sys.stderr)
                with ExitStack() as stack:
                    stack.enter_context(patch.object(_executors, "run_chunk", slept))
                    on = (
                        stack.enter_context(ThreadPoolExecutor(workers))
                        if engine == "pool"
                        else stack.enter_context(threads(workers))
                    )
                    plan, bar = cast("Any", replayed), Bar()
                    counts = _executors.run_on(on, plan, [plan], workers, "1/1", False, bar.show)
                    bar.end()
                done = mw.Summary(**counts)
                assert done.made == replayed.runs
                self.row(
                    "replayed sleeps: the scheduler only", engine, workers, done.made,
                    scheduling=round(done.scheduling, 4), makespan_s=round(done.elapsed_s, 3),
                )  # fmt: skip

    def store(self) -> None:
        points = min(1000, self.store_runs)
        short = mw.Scenario(SAMPLE).set({"duration": "200ms", "warmup": "100ms"})
        # As many places of a call in the traffic as there are points: cheap runs, and as many figures as others have.
        starts = [f"{microseconds}us" for microseconds in range(points)]
        sweep = short.sweep({"flow.call.start": starts}, replications=max(self.store_runs // points, 1))
        path = self.new_store()
        sweep.run(path, workers=self.workers)
        made = sweep.summary
        began = time.monotonic()
        store = mw.Store(path)
        scan = time.monotonic() - began
        began = time.monotonic()
        one = store.estimates(where={"flow.call.start": starts[points // 2]}).rows()
        query = time.monotonic() - began
        assert one[0]["runs"] == made.made // points
        began = time.monotonic()
        assert len(store.estimates()) == points * len(one)
        query_all = time.monotonic() - began
        size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        self.row(
            "store", "threads", made.workers, made.made,
            scheduling=round(made.scheduling, 4),
            overall=round(made.cpu_s / (made.elapsed_s * made.workers), 4),
            makespan_s=round(made.elapsed_s, 3),
            scan_s=round(scan, 3), query_s=round(query, 3), query_all_s=round(query_all, 3),
            figures_per_run=len(one), parts=len(list((path / "runs").iterdir())), bytes_per_run=round(size / made.made, 1),
        )  # fmt: skip


DURATIONS: list[list[float]] = []
"""Of the runs of each point that were measured; the workers of a replay are in this process."""


class Replayed:
    """Stands for a plan and a store: runs that only take time, and that nobody keeps."""

    def __init__(self, replications: int) -> None:
        self.points = POINTS
        self.replications = replications
        self.runs = POINTS * replications

    def json(self) -> str:
        return "replayed"

    def begin(self, plans: list[Replayed]) -> None:
        pass

    def missing(self, plans: list[Replayed], shard: str, again: bool) -> list[Jobs]:
        return [[(point, n) for point in range(self.points) for n in range(1, self.replications + 1)]]

    def commit(self, runs: bytes, figures: bytes, reports: bytes | None) -> None:
        pass


def slept(work: list[tuple[str, Jobs]]) -> Done:
    """A chunk of a replay."""
    [(_, jobs)] = work
    times = [(point, DURATIONS[point][n % len(DURATIONS[point])]) for point, n in jobs]
    seconds = sum(time for _, time in times)
    time.sleep(seconds)
    return ((b"", b"", None), [times], seconds, 0)


@contextmanager
def threads(workers: int) -> Generator[mw.Cluster]:
    """Workers of Dask in this process."""
    import dask.config
    from distributed import LocalCluster

    # None is no dashboard, whatever its type says.
    nowhere = cast("Any", None)
    # Without a limit: each would pause for the memory of them all.
    with dask.config.set(QUIET):
        local = LocalCluster(n_workers=workers, threads_per_worker=1, processes=False, dashboard_address=nowhere, memory_limit=0)
    with local, closing(mw.dask(local.scheduler_address)) as cluster:
        yield cluster


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--store-runs", type=int, default=1_000_000)
    parser.add_argument("--only", action="append", choices=PARTS, default=[])
    parser.add_argument("--replayed", action="append", type=int, default=[], metavar="WORKERS", help="of the replays")
    parser.add_argument("--makeway", type=Path, default=BUILT / "makeway", help="the program")
    parser.add_argument("--lab", type=Path, default=BUILT / "makeway-lab", help="the program of studies")
    parser.add_argument("--full", action="store_true", help="studies with all of their replications")
    parser.add_argument("--sem", type=Path, default=ROOT / "target/sem/bin/python", help="a Python with SEM")
    parser.add_argument("--out", type=Path, default=Path("out/sweep.json"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(arguments, Path(folder))
        failed: list[str] = []
        try:
            for part in arguments.only or PARTS:
                try:
                    getattr(bench, part)()
                except Exception:
                    # Others are measured all the same.
                    traceback.print_exc()
                    failed.append(part)
        finally:
            arguments.out.parent.mkdir(parents=True, exist_ok=True)
            arguments.out.write_text(json.dumps(bench.rows, indent=1) + "\n")
    for said in bench.misses:
        print(f"missed: {said}", file=sys.stderr)
    for part in failed:
        print(f"not measured whole: {part}", file=sys.stderr)
    return int(bool(failed) or any(row["identical"] is False for row in bench.rows))


if __name__ == "__main__":
    sys.exit(main())
