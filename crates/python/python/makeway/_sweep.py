# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sweeps, and the store of their runs."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

from makeway import _makeway
from makeway._executors import Cluster, run_on
from makeway._scenario import as_text, as_texts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Executor

    from makeway._makeway import Table
    from makeway._scenario import Setting

Where: TypeAlias = "Mapping[str, Setting]"
"""Values of keys, or one of each, to which a query is limited."""
Tell: TypeAlias = "Callable[[dict[str, float]], None]"
"""Is told how far a sweep is."""
LINE_S = 10.0
"""Between two lines of a bar that is not on a terminal."""


def geom(first: str | float, last: str | float, count: int) -> list[str]:
    """`count` values from `first` to `last`, each larger by the same factor: `geom("1mbit", "100mbit", 9)`."""
    low, high, unit = _range(first, last)
    if count < 2 or low <= 0 or high <= 0:
        raise ValueError(f"geom({first!r}, {last!r}, {count}): give two values or more, both above 0")
    return [_number(low * (high / low) ** (n / (count - 1)), unit) for n in range(count)]


def lin(first: str | float, last: str | float, count: int) -> list[str]:
    """`count` values from `first` to `last` at equal distances: `lin("0ms", "100ms", 11)`."""
    low, high, unit = _range(first, last)
    if count < 2:
        raise ValueError(f"lin({first!r}, {last!r}, {count}): give two values or more")
    return [_number(low + (high - low) * n / (count - 1), unit) for n in range(count)]


def _range(first: str | float, last: str | float) -> tuple[float, float, str]:
    (low, unit), (high, other) = (_split(value) for value in (first, last))
    if unit != other:
        raise ValueError(f"{first!r} and {last!r} have different units: write both in one, like '1mbit' and '100mbit'")
    return low, high, unit


def _split(value: str | float) -> tuple[float, str]:
    text = str(value).strip()
    number = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ/%")
    try:
        return float(number), text[len(number) :].strip()
    except ValueError:
        raise ValueError(f"{value!r} is no number with a unit, like '10mbit' or 0.5") from None


def _number(value: float, unit: str) -> str:
    # Rates and times with few digits are read exactly, and look as a person would write them.
    return f"{float(f'{value:.6g}'):.12g}{unit}"


@dataclass(frozen=True)
class Summary:
    """How a sweep ended."""

    runs: int
    """Runs of the sweep, or of its shard."""
    kept: int
    """Of those, in the store before, or the same as a run of an earlier point or sweep."""
    made: int
    """Made now, failed ones included."""
    failed: int
    """Of those, without figures: `store.runs()` has their errors."""
    busy_s: float
    """Time of the runs that were made, by the clock."""
    cpu_s: float
    """Their processor time."""
    elapsed_s: float
    workers: int

    @property
    def complete(self) -> bool:
        """Whether every run is in the store."""
        return self.kept + self.made == self.runs

    @property
    def scheduling(self) -> float:
        """Share of the workers' time that runs took."""
        return self.busy_s / (self.elapsed_s * self.workers) if self.elapsed_s > 0 else 0.0


class Store:
    """A folder of finished runs. A run that is in it is never made again.

    Queries are about the sweep that was run last, or the one that is given. Damaged parts are moved aside when the store
    is opened; their runs are missing then.
    """

    _inner: _makeway.Store

    def __init__(self, path: str | Path) -> None:
        self._inner = _makeway.Store(path)
        if damaged := self._inner.damaged:
            print(
                f"{self.path}: {len(damaged)} damaged parts were moved aside; their runs are made again",
                file=sys.stderr,
            )

    @property
    def path(self) -> Path:
        return Path(self._inner.path)

    def __len__(self) -> int:
        return len(self._inner)

    def __repr__(self) -> str:
        return f"<makeway.Store {str(self.path)!r} of {len(self)} runs>"

    def _plan(self, sweep: Sweep | None) -> _makeway.Plan:
        return self._inner.last() if sweep is None else sweep.plan

    def sweep(self) -> Sweep:
        """The sweep that was run last."""
        return Sweep(self._inner.last())

    def figures(self, sweep: Sweep | None = None, *, where: Where | None = None) -> Table:
        """A row for each figure of each run: the axes, `replication`, `of` (group or queue), `figure`, `value`.

        Args:
            sweep: the one that was run last, if None.
            where: values of keys of the sweep, `{"link.line.rate": ["1mbit", "2mbit"]}`: only their runs are read.
        """
        return self._inner.figures(self._plan(sweep), as_texts(where or {}))

    def runs(self, sweep: Sweep | None = None) -> Table:
        """A row for each run: the axes, `replication`, `seed`, `status`, `error`, `fingerprint`, `hops`, `cpu_ns`, ..."""
        return self._inner.runs(self._plan(sweep))

    def reports(self, sweep: Sweep | None = None) -> Table:
        """A row for each run of a sweep with `keep="report"` or `"series"`: the axes, `replication`, `report` (JSON)."""
        return self._inner.reports(self._plan(sweep))

    def estimates(self, by: Sequence[str] | None = None, sweep: Sweep | None = None, *, where: Where | None = None) -> Table:
        """Mean and half-width of the 95 % interval (Student's t over replications) of each figure.

        Args:
            by: keys of the sweep whose values are told apart; all, if None. Over the others a figure is averaged within
                each replication first.
            sweep: the one that was run last, if None.
            where: values of keys of the sweep, as of `figures`.
        """
        plan = self._plan(sweep)
        keys = [key for key, _ in plan.axes] if by is None else list(by)
        return self._inner.estimates(plan, keys, as_texts(where or {}))

    def differences(self, key: str, base: Setting, sweep: Sweep | None = None, *, where: Where | None = None) -> Table:
        """By how much each figure is larger with each other value of `key` than with `base`.

        Means of differences within pairs of runs that have the same random numbers, with their 95 % intervals; `certain`
        where zero is outside. `where` limits them to values of keys of the sweep, as of `figures`.
        """
        return self._inner.differences(self._plan(sweep), key, as_text(base), as_texts(where or {}))

    def _repr_html_(self) -> str:
        return self._inner.estimates(plan := self._inner.last(), [key for key, _ in plan.axes], [])._repr_html_()


class Sweep:
    """All combinations of values of keys of a scenario, and replications of each."""

    plan: _makeway.Plan

    def __init__(self, plan: _makeway.Plan) -> None:
        self.plan = plan

    @classmethod
    def load(cls, path: str | Path) -> Sweep:
        """A sweep from a file of a store's `plans/`, or of `makeway-lab papers --plans DIR` and `gauntlet --plans DIR`."""
        return cls(_makeway.Plan.from_json(Path(path).read_text(encoding="utf-8")))

    def __len__(self) -> int:
        """Number of runs."""
        return self.plan.runs

    def __repr__(self) -> str:
        return f"<makeway.Sweep {self.plan.title!r}: {self.plan.points} points, {self.plan.replications} replications>"

    def run(
        self,
        store: Store | str | Path,
        *,
        on: Executor | Cluster | None = None,
        workers: int | None = None,
        shard: str = "1/1",
        again: bool = False,
        progress: bool | None = None,
    ) -> Store:
        """Makes the runs that `store` lacks, and returns it. `summary` has how it ended.

        Args:
            store: a store, or its folder.
            on: where runs are made: on threads of this process, if None; any `concurrent.futures.Executor`; `makeway.dask(...)`;
                `makeway.ray(...)`.
            workers: number of threads, or of the executor's workers; one for each core, if None.
            shard: `1/4` makes every fourth run only, for batch systems; all shards may write to one store.
            again: whether runs that failed are made again.
            progress: a bar on standard error, or a line every ten seconds where that is no terminal; if None, on terminals alone.

        Raises:
            StoreError: a worker has another version of the simulator or other traces; or one run has two results.
            ConnectionError: the executor has dropped its work, or its workers do not answer. As after each other error, finished
                runs are in the store.
        """
        store = store if isinstance(store, Store) else Store(store)

        def make(tell: Tell | None) -> dict[str, Any]:
            if on is None:
                return store._inner.run([self.plan], workers, shard, again, tell)
            return run_on(on, store._inner, [self.plan], workers, shard, again, tell)

        self.summary = Summary(**_shown(make, progress))
        return store


def run_all(
    sweeps: Sequence[Sweep],
    store: Store | str | Path,
    *,
    on: Executor | Cluster | None = None,
    workers: int | None = None,
    again: bool = False,
    progress: bool | None = None,
) -> Summary:
    """Makes the runs of several sweeps that `store` lacks, in one queue, so that no worker waits for the end of one.

    A run that several of them have is made once. Arguments and errors are those of `Sweep.run`.
    """
    store = store if isinstance(store, Store) else Store(store)

    def make(tell: Tell | None) -> dict[str, Any]:
        plans = [sweep.plan for sweep in sweeps]
        if on is None:
            return store._inner.run(plans, workers, "1/1", again, tell)
        return run_on(on, store._inner, plans, workers, "1/1", again, tell)

    return Summary(**_shown(make, progress))


def _shown(make: Callable[[Tell | None], dict[str, Any]], progress: bool | None) -> dict[str, Any]:
    """Counts of a sweep, with a bar meanwhile if that is wanted."""
    bar = Bar() if (sys.stderr.isatty() if progress is None else progress) else None
    try:
        counts = make(bar.show if bar else None)
        if bar:
            # A short sweep ends before its first report.
            bar.show(counts)
    finally:
        if bar:
            bar.end()
    return counts


class Bar:
    """A line on a terminal; elsewhere, as in the log of a batch system, a new one every ten seconds."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.on_terminal = self.stream.isatty()
        self.shown = False
        self.due, self.last = 0.0, ""

    def show(self, counts: dict[str, float]) -> None:
        done, made, runs = counts["kept"] + counts["made"], counts["made"], counts["runs"]
        left = ""
        if made:
            seconds = counts["elapsed_s"] / made * (runs - done)
            left = f", {seconds // 60:.0f} min left" if seconds >= 90 else f", {seconds:.0f} s left"
        failed = f", {counts['failed']:.0f} failed" if counts["failed"] else ""
        filled = "#" * int(40 * done / max(runs, 1))
        line = f"[{filled:40}] {done:.0f} of {runs:.0f} runs{failed}{left}"
        if self.on_terminal:
            self.stream.write(f"\r{line}\033[K")
        elif line != self.last and (done == runs or time.monotonic() >= self.due):
            self.stream.write(f"{line}\n")
            self.due, self.last = time.monotonic() + LINE_S, line
        self.stream.flush()
        self.shown = True

    def end(self) -> None:
        if self.shown and self.on_terminal:
            self.stream.write("\n")
