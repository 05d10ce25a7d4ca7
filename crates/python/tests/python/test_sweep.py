# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sweeps, stores and executors."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import duckdb
import makeway as mw
import polars as pl
import pytest
from conftest import DISCIPLINE, ROOT, TEXT
from makeway import _executors
from makeway._sweep import Bar

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from makeway._makeway import Done

    Record = Callable[[str, object], None]


def test_a_sweep_runs_only_what_is_missing(call: mw.Scenario, sweep: mw.Sweep, tmp_path: Path) -> None:
    store = sweep.run(tmp_path / "store", workers=2)
    assert (len(sweep), len(store), sweep.summary.made, sweep.summary.kept) == (12, 12, 12, 0)
    assert sweep.summary.complete
    more = call.sweep({DISCIPLINE: ["fifo", "sqf", "makeway"], "link.line.rate": ["1mbit", "2mbit"]}, replications=4)
    more.run(mw.Store(tmp_path / "store"))
    assert (more.summary.made, more.summary.kept) == (12, 12)
    again = mw.Store(tmp_path / "store")
    assert len(again) == 24
    # Of the sweep that was run last, or of another.
    assert set(again.figures()[DISCIPLINE]) == {"fifo", "sqf", "makeway"}
    assert set(again.figures(sweep)[DISCIPLINE]) == {"fifo", "sqf"}
    assert set(again.runs()["status"]) == {"ok"}


def test_values_that_mean_the_same_are_refused(call: mw.Scenario) -> None:
    with pytest.raises(mw.StoreError, match=r"`link.line.rate` has values that mean the same .*: keep one of them"):
        call.sweep({DISCIPLINE: ["fifo", "sqf"], "link.line.rate": ["10mbit", "1mbit", "10000kbit"]})


def test_a_sweeps_run_is_the_run_of_the_scenario(call: mw.Scenario, sweep: mw.Sweep, tmp_path: Path) -> None:
    store = sweep.run(tmp_path)
    row = next(row for row in store.runs().rows() if row[DISCIPLINE] == "sqf" and row["replication"] == 2)
    run = call.set({DISCIPLINE: "sqf", "link.line.rate": row["link.line.rate"]}).run(replication=2)
    assert row["fingerprint"] == run.fingerprint
    of_store = [
        (r["of"], r["figure"], r["value"])
        for r in store.figures().rows()
        if (r[DISCIPLINE], r["link.line.rate"], r["replication"]) == ("sqf", row["link.line.rate"], 2)
    ]
    assert of_store == [(r["of"], r["figure"], r["value"]) for r in run.figures.rows()]


def test_statistics_are_over_replications(sweep: mw.Sweep, tmp_path: Path) -> None:
    store = sweep.run(tmp_path)
    figures = pl.DataFrame(store.figures())
    mean = figures.group_by(DISCIPLINE, "link.line.rate", "of", "figure").agg(pl.col("value").mean())
    estimates = pl.DataFrame(store.estimates())
    both = estimates.join(mean, on=[DISCIPLINE, "link.line.rate", "of", "figure"])
    assert both.height == estimates.height > 40
    known = both.drop_nulls(["mean", "value"])
    assert known["mean"].to_list() == pytest.approx(known["value"].to_list(), rel=1e-12)
    differences = store.differences(DISCIPLINE, base="fifo")
    row = next(r for r in differences.rows() if (r["of"], r["figure"]) == ("call", "delay_mean_ms"))
    assert row["than"] == "fifo"
    assert row["mean"] < -10
    assert row["certain"]
    with pytest.raises(mw.StoreError, match="its keys are"):
        store.estimates(by=["seed"])


def test_a_table_has_the_rows_that_are_asked_for(sweep: mw.Sweep, tmp_path: Path) -> None:
    estimates = sweep.run(tmp_path / "store").estimates()
    rate = "link.line.rate"
    chosen = estimates.where({"of": "call", "figure": "on_time"})
    assert isinstance(chosen, mw.Table)
    assert chosen.columns == estimates.columns
    assert chosen.rows() == [row for row in estimates.rows() if (row["of"], row["figure"]) == ("call", "on_time")]
    assert len(chosen.where({rate: "1mbit"})) == len(chosen) / 2 > 0
    # Of several values, one in each row.
    both = estimates.where({"of": "call", "figure": ["on_time", "loss"], rate: ["1mbit", "2mbit"]})
    assert both.rows() == [row for row in estimates.rows() if row["of"] == "call" and row["figure"] in ("on_time", "loss")]
    assert both.where({"figure": ("loss",)}).rows() == both.where({"figure": "loss"}).rows() != []
    assert estimates.where({"of": []}).rows() == []
    assert estimates.where({}).rows() == estimates.rows()
    assert all(runs == 3 for runs in estimates.where({"runs": 3})["runs"])
    with pytest.raises(ValueError, match=r"no row has of = cal: there are .*call, .*download"):
        estimates.where({"of": "cal"})
    with pytest.raises(ValueError, match=r"no row has of = cal: there are .*call, .*download"):
        estimates.where({"of": ["call", "cal"]})
    with pytest.raises(KeyError, match=r"no column .*: there are"):
        estimates.where({"whole": "call"})


def test_a_failed_run_is_a_row_and_not_the_end(call: mw.Scenario, tmp_path: Path) -> None:
    sweep = call.sweep({"flow.download.congestion_control": ["cubic", "bbr"]}, replications=2)
    for place, on in [("threads", None), ("pool", ThreadPoolExecutor(1))]:
        store = sweep.run(tmp_path / place, on=on)
        assert (sweep.summary.failed, sweep.summary.complete) == (2, True)
        assert store.runs()["status"] == ["ok", "ok", "error", "error"]
        assert "bbr" in store.runs()["error"][3]


def test_shards_and_executors_make_the_same_table(sweep: mw.Sweep, tmp_path: Path) -> None:
    serial = sweep.run(tmp_path / "serial", workers=1).figures()
    for shard in ("1/3", "3/3", "2/3"):
        sweep.run(tmp_path / "shards", shard=shard)
    assert sweep.summary.kept + sweep.summary.made == 4
    with ProcessPoolExecutor(2) as pool:
        sweep.run(tmp_path / "pool", on=pool)
    assert sweep.summary.made == 12
    assert sweep.summary.cpu_s > 0
    assert 0 < sweep.summary.busy_s < 2 * sweep.summary.elapsed_s
    for place in ("shards", "pool"):
        assert mw.Store(tmp_path / place).figures().rows() == serial.rows()


def two_sweeps(call: mw.Scenario, folder: Path) -> list[mw.Sweep]:
    """As the program writes them: of scenarios with nothing that changes, and reports."""
    sweeps: list[mw.Sweep] = []
    for discipline in ("fifo", "sqf"):
        path = folder / f"{discipline}.json"
        sweep = call.set({DISCIPLINE: discipline}).sweep({}, replications=4, first=101, keep="report")
        path.write_text(sweep.plan.json())
        sweeps.append(mw.Sweep.load(path))
    return sweeps


def everything(store: mw.Store, sweeps: list[mw.Sweep]) -> list[Any]:
    """All that a store knows of the results of sweeps, and not of how long they took."""
    rows: list[Any] = []
    for sweep in sweeps:
        rows += store.figures(sweep).rows() + store.reports(sweep).rows()
        runs = store.runs(sweep)
        rows += zip(runs["key"], runs["fingerprint"], runs["hops"], strict=True)
    return rows


def test_dask_makes_the_same_tables(call: mw.Scenario, sweep: mw.Sweep, tmp_path: Path) -> None:
    serial = sweep.run(tmp_path / "serial").figures()
    several = two_sweeps(call, tmp_path)
    threads = mw.Store(tmp_path / "threads")
    assert mw.run_all(several, threads, workers=1).made == 8
    with closing(mw.dask(workers=2)) as cluster:
        store = sweep.run(tmp_path / "dask", on=cluster)
        done = mw.run_all(several, store, on=cluster)
    assert (sweep.summary.workers, done.workers) == (2, 2)
    assert (done.runs, done.kept, done.made, done.failed) == (8, 0, 8, 0)
    assert store.figures(sweep).rows() == serial.rows()
    assert everything(store, several) == everything(threads, several)


def test_sweeps_share_a_queue_and_a_store(call: mw.Scenario, tmp_path: Path) -> None:
    sweeps = two_sweeps(call, tmp_path)
    store = mw.Store(tmp_path / "store")
    sweeps[1].run(store)
    assert sweeps[1].summary.made == 4
    with ThreadPoolExecutor(2) as pool:
        done = mw.run_all(sweeps, store, on=pool)
        assert (done.runs, done.kept, done.made) == (8, 4, 4)
        assert done.complete
        again = mw.run_all(sweeps, store, on=pool)
        # A run that sweeps share is made once.
        for place, on in (("threads", None), ("pool", pool)):
            shared = mw.run_all([*sweeps, sweeps[0]], tmp_path / place, on=on)
            assert (shared.runs, shared.kept, shared.made) == (12, 4, 8), place
    assert (again.kept, again.made) == (8, 0)
    # A chunk with runs of both is one part.
    keys = [set(store.runs(sweep)["key"]) for sweep in sweeps]
    parts = [set(pl.read_parquet(part)["key"]) for part in (tmp_path / "pool/runs").glob("*.parquet")]
    assert any(all(part & of for of in keys) for part in parts)
    assert everything(mw.Store(tmp_path / "pool"), sweeps) == everything(store, sweeps)
    assert store.runs(sweeps[0])["replication"] == [101, 102, 103, 104]
    report = json.loads(store.reports(sweeps[0])["report"][1])
    alone = call.set({DISCIPLINE: "fifo"}).run(replication=102)
    assert [flow["goodput_bps"] for flow in report["flows"]] == alone.flows["goodput_bps"]
    # Figures of those runs are there, and need nothing to be made.
    figures = call.set({DISCIPLINE: "fifo"}).sweep({}, replications=4, first=101)
    figures.run(store)
    assert figures.summary.made == 0
    with pytest.raises(ValueError, match="choose figures, report or series"):
        call.sweep({}, keep="all")


def test_an_example_makes_the_runs_of_plans(call: mw.Scenario, tmp_path: Path) -> None:
    folder = tmp_path / "plans"
    folder.mkdir()
    two_sweeps(call, folder)
    command = [sys.executable, str(ROOT / "crates/python/examples/run_plans.py"), str(folder), str(tmp_path / "store")]
    for said in ("8 runs of 2 plans: 0 were in the store, 8 made", "8 were in the store, 0 made"):
        done = subprocess.run([*command, "--on", "threads"], check=True, capture_output=True, text=True)
        assert said in done.stdout


def test_a_query_may_be_of_some_values(sweep: mw.Sweep, tmp_path: Path) -> None:
    store = sweep.run(tmp_path)
    rate = "link.line.rate"
    for name in ("figures", "estimates"):
        table = getattr(store, name)
        wanted = [row for row in table().rows() if row[rate] == "2mbit"]
        assert table(where={rate: "2mbit"}).rows() == wanted != []
    differences = store.differences(DISCIPLINE, "fifo", where={rate: ["2mbit"]}).rows()
    assert differences == [row for row in store.differences(DISCIPLINE, "fifo").rows() if row[rate] == "2mbit"] != []
    with pytest.raises(mw.StoreError, match="it takes 1mbit, 2mbit"):
        store.figures(where={rate: "3mbit"})


def test_a_number_is_one_value(call: mw.Scenario, tmp_path: Path) -> None:
    downloads = "flow.download.count"
    store = call.sweep({downloads: 2}, replications=1).run(tmp_path)
    wanted = store.estimates().rows()
    call.sweep({downloads: [3]}, replications=1).run(tmp_path)
    both = call.sweep({downloads: [2, 3]}, replications=1)
    assert store.estimates(sweep=both, where={downloads: 2}).rows() == wanted != []


class Broken(Executor):
    """The first results of some chunks do not come."""

    def __init__(self, failures: int) -> None:
        self.failures = failures

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if self.failures:
            self.failures -= 1
            future.set_exception(ConnectionError("the worker is gone"))
        else:
            future.set_result(fn(*args, **kwargs))
        return future


def test_a_chunk_whose_worker_is_gone_is_made_again(sweep: mw.Sweep, tmp_path: Path) -> None:
    store = sweep.run(tmp_path / "a", on=Broken(_executors.TRIES - 1), workers=1)
    assert len(store) == 12
    with pytest.raises(ConnectionError):
        sweep.run(tmp_path / "b", on=Broken(10**6), workers=1)


class Silent(Executor):
    """Its first tasks never end, as on a worker that has stopped."""

    def __init__(self, tasks: int) -> None:
        self.stuck: list[Future[Any]] = []
        self.tasks = tasks

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if len(self.stuck) < self.tasks:
            self.stuck.append(future)
        else:
            future.set_result(fn(*args, **kwargs))
        return future


def test_chunks_of_a_worker_that_does_not_answer_are_sent_again(
    sweep: mw.Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_executors, "LATE_S", 0.1)
    silent = Silent(2)
    store = sweep.run(tmp_path, on=silent, workers=3)
    assert (sweep.summary.made, len(store)) == (12, 12)
    # They are not waited for.
    assert [future.cancelled() for future in silent.stuck] == [True, True]


def test_a_chunk_that_three_silent_workers_have_had_ends_the_sweep(
    sweep: mw.Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_executors, "SILENT_S", 0.0)
    silent = Silent(10**6)
    cluster = _executors.Cluster(silent, lambda: 1, lambda: None, silent=lambda: (dict.fromkeys(silent.stuck, "far"), True))
    said = "far, far, far with the chunk that begins at point 0, replication 1 of .*: 0 of 12 runs are in the store"
    with pytest.raises(ConnectionError, match=said):
        sweep.run(tmp_path, on=cluster)
    assert [future.cancelled() for future in silent.stuck] == [True] * _executors.TRIES


class Unfinished(Executor):
    """Its tasks stay under way."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        return Future()


class Client:
    """Stands for Dask's, with workers of one thread, of two, and of four that are silent; its clock is behind by some seconds."""

    status = "running"
    scheduler = SimpleNamespace(identity=None)

    def __init__(self, behind: float) -> None:
        self.asked = 0
        self.wished: list[str] = []
        now = time.time() - behind
        workers = (("one", 1, now - 1), ("two", 2, now), ("silent", 4, now - 2 * _executors.HEARD_S))
        self.workers = {name: {"nthreads": threads, "last_seen": seen} for name, threads, seen in workers}

    def sync(self, *_: Any, **__: Any) -> dict[str, Any]:
        self.asked += 1
        return {"workers": self.workers}

    def get_executor(self, **wished: Any) -> Executor:
        self.wished += wished["workers"]
        return Unfinished()


@pytest.mark.parametrize("behind", [0, 1000])
def test_chunks_go_to_free_threads_of_dask_and_its_scheduler_is_not_asked_for_each(behind: float) -> None:
    client = Client(behind)
    spread = _executors._Spread(client)
    sent = [spread.submit(print) for _ in range(4)]
    assert client.wished == ["two", "one", "two", "one"]
    assert client.asked == 1
    # All of them answer.
    assert spread.on_silent() == ({}, True)
    client.workers["two"]["last_seen"] -= 2 * _executors.HEARD_S
    assert spread.on_silent() == ({sent[0]: "two", sent[2]: "two"}, True)
    # Without another worker none of them is moved.
    del client.workers["one"]
    assert spread.on_silent() == (dict(zip(sent, client.wished, strict=True)), False)


def test_chunks_of_many_workers_are_not_shorter_than_a_driver_can_send_them(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def run_chunk(work: list[tuple[str, _executors.Jobs]]) -> Done:
        [(_, jobs)] = work
        sizes.append(len(jobs))
        return ((b"", b"", None), [[(point, 0.05) for point, _ in jobs]], 0.05 * len(jobs), 0)

    monkeypatch.setattr(_executors, "run_chunk", run_chunk)
    jobs = [(0, replication) for replication in range(1, 5001)]
    plan: Any = SimpleNamespace(points=1, runs=len(jobs), json=lambda: "")

    def missing(*_: object) -> list[_executors.Jobs]:
        return [jobs]

    def nothing(*_: object) -> None:
        """Of a store that keeps nothing."""

    store: Any = SimpleNamespace(begin=nothing, missing=missing, commit=nothing)
    with ThreadPoolExecutor(1) as pool:
        counts = _executors.run_on(pool, store, [plan], 64, "1/1", False, None)
    assert counts["made"] == sum(sizes) == 5000
    # Of the first 64 no time is known, and the last is the rest.
    assert sizes[:64] == [1] * 64
    assert min(sizes[64:-1]) * 0.05 >= 0.64


class Dropping(Executor):
    """Drops all work after the first task, as Dask does without its scheduler."""

    def __init__(self) -> None:
        self.tasks = 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.tasks += 1
        if self.tasks == 1:
            future.set_result(fn(*args, **kwargs))
        else:
            future.cancel()
            future.set_running_or_notify_cancel()
        return future


def test_an_executor_that_drops_its_work_ends_the_sweep_and_says_how_far_it_is(sweep: mw.Sweep, tmp_path: Path) -> None:
    with pytest.raises(ConnectionError, match="of 12 runs are in the store; run the sweep again"):
        sweep.run(tmp_path, on=Dropping(), workers=2)
    assert len(mw.Store(tmp_path)) <= 1


class OtherVersion(Executor):
    """Its workers have another simulator."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            work = [(plan.replace(mw.SIMULATOR, "0" * 32), jobs) for plan, jobs in args[0]]
            future.set_result(fn(work))
        except mw.StoreError as error:
            future.set_exception(error)
        return future


def test_a_worker_with_another_simulator_is_refused(sweep: mw.Sweep, tmp_path: Path) -> None:
    with pytest.raises(mw.StoreError, match="install the same build of makeway on every machine"):
        sweep.run(tmp_path, on=OtherVersion(), workers=1)
    assert len(mw.Store(tmp_path)) == 0


class Ray:
    """Stands for the module `ray`, of which the adapter uses little: tasks on threads, errors in a wrapper of its own."""

    class Error(Exception):
        def __init__(self, cause: BaseException) -> None:
            super().__init__("a task failed")
            self.cause = cause

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.pool = ThreadPoolExecutor(2)

    def init(self, **how: Any) -> None:
        self.calls.append(how)

    def is_initialized(self) -> bool:
        return "shutdown" not in self.calls

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 2.0, "memory": 1e9}

    def remote(self, **how: Any) -> Any:
        self.calls.append(how)

        def task(fn: Any) -> Any:
            def guarded(*args: Any) -> Any:
                try:
                    return fn(*args)
                except Exception as error:
                    raise Ray.Error(error) from None

            def start(*args: Any) -> Any:
                future = self.pool.submit(guarded, *args)
                return SimpleNamespace(future=lambda: future)

            return SimpleNamespace(remote=start)

        return task

    def shutdown(self) -> None:
        self.calls.append("shutdown")
        self.pool.shutdown()


def test_the_adapter_of_ray_is_thin() -> None:
    assert len((ROOT / "crates/python/python/makeway/_ray.py").read_text().splitlines()) < 150


def test_ray_makes_the_same_table(call: mw.Scenario, sweep: mw.Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_USAGE_STATS_ENABLED", raising=False)
    serial = sweep.run(tmp_path / "serial").figures()
    stand_in = Ray()
    monkeypatch.setitem(sys.modules, "ray", cast("Any", stand_in))
    with closing(mw.ray("auto")) as cluster:
        store = sweep.run(tmp_path / "ray", on=cluster)
        # The error of a worker, not that of Ray around it.
        other = mw.Sweep(type(sweep.plan).from_json(sweep.plan.json().replace(mw.SIMULATOR, "0" * 32)))
        with pytest.raises(mw.StoreError, match="install the same build"):
            other.run(tmp_path / "other", on=cluster)
    assert sweep.summary.workers == 2
    assert store.figures().rows() == serial.rows()
    assert stand_in.calls == [
        {"address": "auto", "log_to_driver": False}, {"num_cpus": 1, "max_retries": 0}, "shutdown",
    ]  # fmt: skip
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"


DRIVER = """
import sys
import makeway as mw
sweep = mw.Scenario(sys.argv[1]).set({"duration": "20s"}).sweep({"link.line.rate": ["1mbit", "2mbit"]}, replications=400)
print("begun", flush=True)
sweep.run(sys.argv[2], workers=2, progress=False)
"""


def told(record: Record, case: str, workers: int, runs: int) -> None:
    """Properties of a test on threads, of which `make bench-sweep` makes a row."""
    for name, value in (("case", case), ("engine", "threads"), ("workers", workers), ("runs", runs)):
        record(name, value)


def test_a_killed_driver_loses_one_part_at_most(tmp_path: Path, record_property: Record) -> None:
    """SIGKILL in the middle; what was committed stays, and the finished table is the serial one."""
    told(record_property, "SIGKILL of the driver", 2, 10)
    folder = tmp_path / "store"
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, TEXT, str(folder)], stdout=subprocess.PIPE)
    assert driver.stdout is not None
    driver.stdout.readline()
    deadline = time.monotonic() + 60
    while not list((folder / "runs").glob("*.parquet")) and driver.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()
    driver.stdout.close()
    kept = len(mw.Store(folder))
    assert kept > 0
    # Fewer replications, so that the test ends soon: runs of the first ones are there already.
    short = mw.Scenario(TEXT).set({"duration": "20s"}).sweep({"link.line.rate": ["1mbit", "2mbit"]}, replications=5)
    short.run(folder)
    serial = short.run(tmp_path / "serial", workers=1)
    assert mw.Store(folder).figures(short).rows() == serial.figures().rows()


def test_a_damaged_part_is_made_again(
    sweep: mw.Sweep, tmp_path: Path, capsys: pytest.CaptureFixture[str], record_property: Record
) -> None:
    told(record_property, "a truncated part", os.cpu_count() or 1, 12)
    expected = sweep.run(tmp_path).figures().rows()
    part = next((tmp_path / "figures").glob("*.parquet"))
    part.write_bytes(part.read_bytes()[:-100])
    store = mw.Store(tmp_path)
    assert "1 damaged parts were moved aside" in capsys.readouterr().err
    sweep.run(store)
    assert sweep.summary.made == 12
    assert store.figures().rows() == expected


def test_a_full_disk_is_an_error_and_the_store_stays_whole(sweep: mw.Sweep, tmp_path: Path) -> None:
    import resource

    store = mw.Store(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(OSError, match="large"):
            sweep.run(store)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, old)
    assert len(store) == 0
    assert not list(tmp_path.glob("*/*.parquet"))
    sweep.run(store)
    assert len(mw.Store(tmp_path)) == 12


def test_duckdb_reads_the_files_of_a_store(sweep: mw.Sweep, tmp_path: Path) -> None:
    store = sweep.run(tmp_path)
    runs, figures = (f"'{tmp_path}/{kind}/*.parquet'" for kind in ("runs", "figures"))
    query = f"SELECT count(*), count(DISTINCT key) FROM {runs} JOIN {figures} USING (key)"
    assert duckdb.sql(query).fetchall() == [(len(store.figures()), 12)]  # pyright: ignore[reportOptionalMemberAccess]


def test_a_bar_shows_how_far_it_is(call: mw.Scenario, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep = call.set({"duration": "100s"}).sweep({}, replications=8)
    sweep.run(tmp_path, progress=True, workers=2)
    assert " 8 of 8 runs" in capsys.readouterr().err


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_is_a_line_on_a_terminal_and_a_few_in_a_log() -> None:
    terminal, log = Terminal(), io.StringIO()
    for stream in (terminal, log):
        bar = Bar(stream)
        for made in (0, 2, 4, 6, 6):
            bar.show({"runs": 8, "kept": 2, "made": made, "failed": 0, "elapsed_s": 4.0})
        bar.end()
    assert terminal.getvalue().count("\r") == 5
    assert log.getvalue().splitlines() == [f"[{'#' * 10:40}] 2 of 8 runs", f"[{'#' * 40}] 8 of 8 runs, 0 s left"]
