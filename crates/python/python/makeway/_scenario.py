# SPDX-License-Identifier: MIT OR Apache-2.0
"""A scenario, its settings and its runs."""

from __future__ import annotations

import gzip
import html
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from makeway import _makeway, _netns

if TYPE_CHECKING:
    from collections.abc import Callable

    from makeway._makeway import Table
    from makeway._sweep import Sweep

Setting: TypeAlias = "str | int | float | bool | Sequence[Setting] | Mapping[str, Setting]"
"""Value of a key: text as after `makeway run --set KEY=`, a number, True or False, a list, a table."""


def as_text(value: Setting) -> str:
    """As after `--set KEY=`."""
    return value if isinstance(value, str) else _toml(value)


def as_texts(values: Mapping[str, Setting]) -> list[tuple[str, list[str]]]:
    """Keys with their values as text: of a list each, of anything else the one."""
    return [(key, [as_text(value) for value in _listed(value)]) for key, value in values.items()]


def _listed(value: Setting) -> Sequence[Setting]:
    return [value] if isinstance(value, str | bool | int | float | Mapping) else value


def _toml(value: Setting) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            return json.dumps(value, ensure_ascii=False)
        case Mapping():
            return "{ " + ", ".join(f"{json.dumps(key)} = {_toml(inner)}" for key, inner in value.items()) + " }"
        case Sequence():
            return "[" + ", ".join(_toml(inner) for inner in value) + "]"
    if hasattr(value, "item"):  # a number of NumPy
        return _toml(value.item())
    raise TypeError(f"a setting of {type(value).__name__}: give text, a number, True or False, a list or a dictionary")


def _again(text: str, file: str, folder: Path, settings: list[str]) -> Scenario:
    inner = _makeway.Scenario.parse(text, file, folder)
    return Scenario._of(inner.set(settings) if settings else inner)


class Scenario:
    """A scenario that has been read and checked.

    Args:
        source: path of a TOML file, or its text (text has a line break).
        folder: traces are named from here, where `source` is text.

    Raises:
        ScenarioError: place, key, what is wrong, what would be right, as `makeway check` says it.
    """

    _inner: _makeway.Scenario

    def __init__(self, source: str | Path, *, folder: str | Path = ".") -> None:
        if isinstance(source, str) and "\n" in source:
            self._inner = _makeway.Scenario.parse(source, "scenario", folder)
        else:
            self._inner = _makeway.Scenario.load(source)

    @classmethod
    def _of(cls, inner: _makeway.Scenario) -> Scenario:
        scenario = cls.__new__(cls)
        scenario._inner = inner
        return scenario

    def __reduce__(self) -> tuple[Callable[..., Scenario], tuple[Any, ...]]:
        """For copies and other processes: the text travels, the traces that it names do not."""
        return _again, (*self._inner.source, self._inner.settings)

    def set(self, settings: Mapping[str, Setting]) -> Scenario:
        """With other values of keys, named as after `makeway run --set`: `link.line.rate`."""
        return Scenario._of(self._inner.set([f"{key}={as_text(value)}" for key, value in settings.items()]))

    def run(
        self,
        replication: int = 0,
        world: str = "sim",
        *,
        pcap: Mapping[str, str | Path] | None = None,
        ns2: Mapping[str, str | Path] | None = None,
        program: str | Path = "makeway",
    ) -> Run:
        """Runs it, without the interpreter's lock.

        Args:
            replication: which of the runs that the seed stands for. 0 is the scenario as it is written; in each other
                all random streams are new, and flows begin up to 100 ms later. In the world `netns` it is added to the seed.
            world: `sim`, simulated time; or `netns`, in real time with the kernel's TCP, in network namespaces of this machine,
                by the program `makeway`.
            pcap: files to write as pcapng, by link, or end of a link: `{"line:router": "down.pcapng"}`.
            ns2: files to write as text of ns-2, likewise; the link `""` stands for all of them.
            program: path of `makeway`, or its name in PATH, for the world `netns`.

        Raises:
            RunError: the world has no part of it, or the program cannot run it.
            ScenarioError: there is no such link.
        """
        if world not in ("sim", "netns"):
            raise ValueError(f"world {world!r}: choose 'sim', simulated time, or 'netns', network namespaces")
        if world == "netns":
            if pcap or ns2:
                raise ValueError("traces are of runs in simulated time: leave out pcap and ns2, or run it in the world 'sim'")
            return Run(self._inner.read(_netns.report(self._inner, replication, program), replication))
        traces = [(False, place, Path(path)) for place, path in (pcap or {}).items()]
        traces += [(True, place, Path(path)) for place, path in (ns2 or {}).items()]
        paths = [path for *_, path in traces]
        for path in paths:
            if paths.count(path) > 1:
                raise ValueError(f"two traces would write {path}: name a separate file for each")
        return Run(self._inner.run(replication, traces))

    def sweep(self, axes: Mapping[str, Setting], *, replications: int = 10, first: int = 1, keep: str = "figures") -> Sweep:
        """All combinations of values of keys, `replications` runs of each, with common random numbers.

        Args:
            axes: values of each key, or its one value; the first key changes slowest.
            replications: of each combination.
            first: number of the first of them.
            keep: `figures` of each run; its `report` too, which `store.reports()` has; or the report with its `series`.
        """
        from makeway._sweep import Sweep

        return Sweep(self._inner.plan(as_texts(axes), replications, first, keep))

    @property
    def title(self) -> str:
        return self._inner.title

    @property
    def seed(self) -> int:
        return self._inner.seed

    @property
    def duration_s(self) -> float:
        """How long traffic runs, warm-up included."""
        return self._inner.duration_s

    @property
    def warnings(self) -> list[str]:
        """Sentences about settings that are allowed and probably not meant."""
        return self._inner.warnings

    @property
    def digest(self) -> str:
        """Of its meaning: numbers and traces, not title, comments or spelling."""
        return self._inner.digest

    def explain(self) -> str:
        """The scenario in words."""
        return self._inner.explain()

    def __repr__(self) -> str:
        return f"<makeway.Scenario {self.title!r}, {self.duration_s:g} s>"

    def _repr_html_(self) -> str:
        return f"<p><b>{html.escape(self.title)}</b></p><pre>{html.escape(self.explain())}</pre>"


class Run:
    """Results of a run. Tables are Arrow streams: `pl.DataFrame(run.flows)`, `pd.DataFrame.from_arrow(run.flows)`."""

    _inner: _makeway.Run

    def __init__(self, inner: _makeway.Run) -> None:
        self._inner = inner

    @property
    def flows(self) -> Table:
        """A row for each flow; columns end with their unit."""
        return self._inner.flows

    @property
    def classes(self) -> Table:
        """A row for each class of datagrams of each flow of kind `media`."""
        return self._inner.classes

    @property
    def queues(self) -> Table:
        """A row for each measured queue."""
        return self._inner.queues

    @property
    def figures(self) -> Table:
        """A row for each figure of each group of flows and each queue: those of a sweep."""
        return self._inner.figures

    def series(self, figure: str | None = None) -> Table:
        """Values over time: columns `of`, `figure`, `time_s` (begin of the step), `value`.

        Args:
            figure: `goodput_bps`, `loss`, `delay_ms` (the largest of a step), `tasks`, `rate_bps` or `backlog` (packets);
                all of them, if None.
        """
        known = ("goodput_bps", "loss", "delay_ms", "tasks", "rate_bps", "backlog")
        if figure is not None and figure not in known:
            raise ValueError(f"no series {figure!r}: choose {', '.join(known)}")
        return self._inner.series(figure)

    @property
    def fingerprint(self) -> str:
        """Of all events: the same for the same scenario, seed and replication, on every machine with the same build.

        Empty in the world `netns`, where no run is the same twice.
        """
        return self._inner.fingerprint

    @property
    def world(self) -> str:
        """`sim` or `netns`."""
        return self._inner.world

    @property
    def replication(self) -> int:
        return self._inner.replication

    @property
    def seed(self) -> int:
        return self._inner.seed

    @property
    def hops(self) -> int:
        """Packets that came to the far end of a link; 0 in the world `netns`, which does not count them."""
        return self._inner.hops

    @property
    def warnings(self) -> list[str]:
        """Sentences about what makes figures doubtful."""
        return self._inner.warnings

    def report(self) -> dict[str, Any]:
        """What `makeway run --json` prints."""
        return json.loads(self._inner.json())

    def html(self) -> str:
        """What `makeway run --out` writes as report.html: one page without scripts."""
        return self._inner.html()

    def flent(self, path: str | Path, *, client: str | None = None) -> Path:
        """Writes it as a data file of flent, `flent -f plot -p totals -o totals.png run.flent.gz`.

        Args:
            path: a name that ends in `.flent.gz`, or in `.flent` for a file that is not compressed.
            client: node whose flows go up, and all others down; the receiver of the first download, if None.
        """
        path = Path(path)
        if not path.name.endswith((".flent", ".flent.gz")):
            raise ValueError(f"{path}: flent reads files whose name ends in .flent.gz, like 'run.flent.gz'")
        content = self._inner.flent(client, path.name).encode()
        # Without the time, so that the same run is the same file.
        path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
        return path

    def __str__(self) -> str:
        return str(self._inner)

    def __repr__(self) -> str:
        return f"<makeway.Run {self._inner.title!r}, seed {self.seed}, replication {self.replication}, {self.fingerprint}>"

    def _repr_html_(self) -> str:
        # The page has a style of its own.
        page = html.escape(self.html(), quote=True)
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 40em; border: 0" title="Report of a run"></iframe>'
