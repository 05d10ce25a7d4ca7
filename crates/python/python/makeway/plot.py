# SPDX-License-Identifier: MIT OR Apache-2.0
"""Plots of results on axes of matplotlib, which the caller may change further. Needs `pip install makeway[plot]`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from matplotlib import pyplot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes

    from makeway._makeway import Table
    from makeway._scenario import Run

UNITS = {"_bps": "Mbit/s", "_ms": "ms", "_s": "s"}
SCALES = {"_bps": 1e-6}
PREFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}
# From 0 to 1: an interval by Student's t may pass them.
SHARES = {"loss", "on_time", "shown", "utilisation"}
NOT_AXES = {"of", "figure", "mean", "half_width", "runs", "than", "certain"}


def _label(figure: str) -> tuple[str, float]:
    for ending, unit in UNITS.items():
        if figure.endswith(ending):
            return f"{figure.removesuffix(ending).replace('_', ' ')} [{unit}]", SCALES.get(ending, 1.0)
    return figure.replace("_", " "), 1.0


def _position(value: Any) -> float | None:
    """Of a number, a rate or a time; None of other text."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    text = str(value)
    for unit, factor in [
        *[(f"{prefix}bit", factor / 1000000.0) for prefix, factor in PREFIXES.items()][::-1],
        ("ms", 1.0),
        ("us", 0.001),
        ("s", 1000.0),
    ]:
        if text.endswith(unit):
            try:
                return float(text.removesuffix(unit)) * factor
            except ValueError:
                continue
    return None


def interval(
    table: Table,
    figure: str,
    *,
    of: str | None = None,
    x: str | None = None,
    hue: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Means with their 95 % intervals, of `store.estimates()` or `store.differences()`. Intervals of shares are cut at 0 and 1.

    Args:
        table: estimates or differences.
        figure: `goodput_bps`, `delay_p99_ms` and so on.
        of: group or queue; needed where several have the figure.
        x: key on the horizontal axis; the last one that the sweep changes, if None. Numbers, rates and times have their place.
        hue: key that tells lines apart; the first other one, if None.
        ax: axes to draw on; new ones, if None.
    """
    known = sorted({name for name, kind in zip(table["of"], table["figure"], strict=True) if kind == figure})
    if not known:
        raise ValueError(f"no figure {figure!r}: there are {', '.join(sorted(set(table['figure'])))}")
    if of is None and len(known) > 1:
        raise ValueError(f"several have the figure {figure!r}: choose of={' or of='.join(map(repr, known))}")
    if of is not None and of not in known:
        raise ValueError(f"{of!r} has no figure {figure!r}: {', '.join(known)} have it")
    keys = [name for name in table.columns if name not in NOT_AXES]
    for key in (x, hue):
        if key is not None and key not in keys:
            raise ValueError(f"no key {key!r}: there are {', '.join(keys)}")
    if x is None and keys:
        x = [key for key in keys if key != hue][-1]
    if hue is None:
        hue = next((key for key in keys if key != x), None)
    rest = [key for key in keys if key not in (x, hue)]
    if ax is None:
        _, ax = pyplot.subplots()
    text, scale = _label(figure)
    lines: dict[str, list[Mapping[str, Any]]] = {}
    for row in table.rows():
        if row["figure"] == figure and row["of"] == (of or known[0]) and row["mean"] is not None:
            name = ", ".join(str(row[key]) for key in [hue, *rest] if key is not None)
            lines.setdefault(name, []).append(row)
    places = [_position(row[x]) for rows in lines.values() for row in rows] if x else []
    numeric = bool(places) and None not in places
    names: dict[str, int] = {}
    for name, rows in lines.items():
        at: list[float] = []
        for row in rows:
            place = _position(row[x]) if x and numeric else None
            at.append(names.setdefault(str(row[x]) if x else "", len(names)) if place is None else place)
        means = [row["mean"] * scale for row in rows]
        below = [(row["half_width"] or 0.0) * scale for row in rows]
        above = below
        # A difference of shares may be negative.
        if figure in SHARES and "than" not in table.columns:
            below = [min(half, max(mean, 0.0)) for half, mean in zip(below, means, strict=True)]
            above = [min(half, max(1.0 - mean, 0.0)) for half, mean in zip(above, means, strict=True)]
        ax.errorbar(
            at, means, yerr=[below, above], marker="o", capsize=3, linestyle="-" if numeric else "none", label=name or None
        )
    if not numeric:
        ax.set_xticks(list(names.values()), list(names))
    positions = [place for place in places if place]
    if numeric and min(positions, default=1.0) > 0 and max(positions, default=1.0) / min(positions, default=1.0) >= 20:
        ax.set_xscale("log")
    first = str(table[x][0]) if x else ""
    unit = "" if not numeric or _is_number(first) else " [Mbit/s]" if first.endswith("bit") else " [ms]"
    ax.set_xlabel(f"{x or ''}{unit}")
    ax.set_ylabel(f"{text}, {of or known[0]}")
    if len(lines) > 1:
        ax.legend(title=hue)
    return ax


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def series(run: Run, figure: str, *, ax: Axes | None = None) -> Axes:
    """A series of a run over time, a line for each flow or queue that has it."""
    if ax is None:
        _, ax = pyplot.subplots()
    text, scale = _label(figure)
    lines: dict[str, tuple[list[float], list[float]]] = {}
    for row in run.series(figure).rows():
        times, values = lines.setdefault(row["of"], ([], []))
        times.append(row["time_s"])
        values.append(row["value"] * scale)
    for name, (times, values) in lines.items():
        ax.plot(times, values, label=name)
    ax.set_xlabel("time [s]")
    ax.set_ylabel(text)
    if lines:
        ax.legend()
    return ax
