# SPDX-License-Identifier: MIT OR Apache-2.0
"""Plots: what is drawn is in the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import makeway as mw
import matplotlib as mpl
import pytest
from conftest import DISCIPLINE

mpl.use("Agg")

from makeway import plot

if TYPE_CHECKING:
    from pathlib import Path

GOODPUT = ("download", "goodput_bps")


def test_intervals_are_drawn_at_their_rates(sweep: mw.Sweep, tmp_path: Path) -> None:
    store = sweep.run(tmp_path)
    ax = plot.interval(store.estimates(), "delay_p99_ms")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["fifo", "sqf"]  # pyright: ignore
    drawn = {container.get_label(): container for container in ax.containers}
    line = drawn["fifo"][0]
    rows = [r for r in store.estimates().rows() if r[DISCIPLINE] == "fifo" and r["figure"] == "delay_p99_ms"]
    assert list(line.get_xdata()) == [1.0, 2.0]
    assert list(line.get_ydata()) == pytest.approx([row["mean"] for row in rows])
    assert ax.get_xlabel() == "link.line.rate [Mbit/s]"
    with pytest.raises(ValueError, match="choose of='call' or of='download'"):
        plot.interval(store.estimates(), "goodput_bps")
    ax = plot.interval(store.differences(DISCIPLINE, base="fifo"), "goodput_bps", of="download", x=DISCIPLINE)
    assert ax.get_ylabel() == "goodput [Mbit/s], download"
    means = [r["mean"] / 1e6 for r in store.differences(DISCIPLINE, base="fifo").rows() if (r["of"], r["figure"]) == GOODPUT]
    assert [next(iter(container[0].get_ydata())) for container in ax.containers] == pytest.approx(means)  # pyright: ignore


class Made:
    """A table of made-up rows."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.made = rows
        self.columns = list(rows[0])

    def __getitem__(self, name: str) -> list[Any]:
        return [row[name] for row in self.made]

    def rows(self) -> list[dict[str, Any]]:
        return self.made


def ends(rows: list[dict[str, Any]]) -> list[float]:
    """Both ends of each interval that is drawn."""
    table: Any = Made(rows)
    ax: Any = plot.interval(table, rows[0]["figure"])
    [container] = ax.containers
    return [float(y) for segment in container[2][0].get_segments() for y in segment[:, 1]]


def test_intervals_of_shares_end_at_0_and_1() -> None:
    row: dict[str, Any] = {"rate": 1, "of": "call", "figure": "on_time", "mean": 0.9, "half_width": 0.3, "runs": 3}
    rows: list[dict[str, Any]] = [
        row,
        row | {"rate": 2, "mean": 0.1},
        row | {"rate": 3, "mean": 0.5},
        row | {"rate": 4, "half_width": None},
    ]
    assert ends(rows) == pytest.approx([0.6, 1.0, 0.0, 0.4, 0.2, 0.8, 0.9, 0.9])
    whole = [0.6, 1.2, -0.2, 0.4, 0.2, 0.8, 0.9, 0.9]
    assert ends([one | {"figure": "jain"} for one in rows]) == pytest.approx(whole)
    # A difference of shares may be negative.
    assert ends([one | {"than": "fifo"} for one in rows]) == pytest.approx(whole)


def test_a_series_is_drawn_over_time(call: mw.Scenario) -> None:
    ax = mw.plot.series(call.run(), "goodput_bps")
    assert [line.get_label() for line in ax.get_lines()] == ["call", "download"]
    times: Any = ax.get_lines()[1].get_xdata()
    assert times[1] == pytest.approx(0.1)
