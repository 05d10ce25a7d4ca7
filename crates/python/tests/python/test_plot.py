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


def test_a_series_is_drawn_over_time(call: mw.Scenario) -> None:
    ax = mw.plot.series(call.run(), "goodput_bps")
    assert [line.get_label() for line in ax.get_lines()] == ["call", "download"]
    times: Any = ax.get_lines()[1].get_xdata()
    assert times[1] == pytest.approx(0.1)
