# SPDX-License-Identifier: MIT OR Apache-2.0
"""Data files of flent, opened and drawn by flent itself."""

from __future__ import annotations

import csv
import gzip
import json
import os
import statistics
import subprocess
import sys
from typing import TYPE_CHECKING

import makeway as mw
import numpy as np
import pytest
from conftest import TEXT
from matplotlib import pyplot

if TYPE_CHECKING:
    from pathlib import Path

UPLOAD = """
[flow.upload]
kind = "bulk"
from = "client"
to = "server"
count = 2
"""


def flent(folder: Path, *arguments: str | Path) -> str:
    """Standard output of flent, which ends with 0 even where it failed: errors are on the other."""
    command = [sys.executable, "-m", "flent", "--rcfile", os.devnull, *map(str, arguments)]
    process = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=120)
    said = process.stdout + process.stderr
    assert process.returncode == 0, said
    assert not any(word in process.stderr for word in ("ERROR", "CRITICAL", "Traceback", "Unable to")), said
    return process.stdout


def table(folder: Path, file: Path) -> dict[str, list[float | None]]:
    """Its series, as flent's CSV has them; the first column is named after the test, and has the times."""
    flent(folder, "-f", "csv", "-o", "table.csv", file)
    with (folder / "table.csv").open(newline="") as lines:
        head, *rows = list(csv.reader(lines))
    return {name: [float(row[n]) if row[n] else None for row in rows] for n, name in enumerate(head)}


def is_drawn(folder: Path, file: Path, plot: str) -> bool:
    """Whether flent draws lines of it: text, axes and the background have no colour, samples of lines in the legend little."""
    flent(folder, "-f", "plot", "-p", plot, "-o", "plot.png", file)
    image = pyplot.imread(folder / "plot.png")
    (folder / "plot.png").unlink()
    assert min(image.shape[:2]) > 200
    colours = image[:, :, :3]
    return int(np.sum(colours.max(axis=2) - colours.min(axis=2) > 0.2)) > 300


def series(run: mw.Run, figure: str, of: str) -> list[float]:
    return run.series(figure).where({"of": of})["value"]


def test_flent_opens_and_draws_a_run(call: mw.Scenario, tmp_path: Path) -> None:
    run = call.run()
    file = run.flent(tmp_path / "run.flent.gz")
    shown = table(tmp_path, file)
    assert shown["tcp_ndown"] == pytest.approx(run.series("backlog")["time_s"])
    assert shown["TCP download::1"] == pytest.approx([bps / 1e6 for bps in series(run, "goodput_bps", "download")])
    # flent's own sum, of one.
    assert shown["TCP download sum"] == pytest.approx(shown["TCP download::1"])
    delays = [ms if ms > 0 else None for ms in series(run, "delay_ms", "call")]
    assert shown["Ping (ms) ICMP"] == shown["Ping (ms) ICMP call (extra)"] == pytest.approx(delays)
    summary = flent(tmp_path, file)
    assert "A call beside a download" in summary
    mean = statistics.fmean(mbps for mbps in shown["TCP download::1"] if mbps is not None)
    line = next(line for line in summary.splitlines() if "TCP download sum" in line)
    assert float(line.split(":")[-1].split()[0]) == pytest.approx(mean, abs=0.006)
    for plot in ("totals", "download", "ping_cdf", "ping_extra"):
        assert is_drawn(tmp_path, file, plot), plot


def test_flent_opens_runs_of_other_directions(tmp_path: Path) -> None:
    scenario = mw.Scenario(TEXT + UPLOAD)
    run = scenario.run()
    file = run.flent(tmp_path / "both.flent.gz")
    shown = table(tmp_path, file)
    up = [series(run, "goodput_bps", f"upload-{n}") for n in (1, 2)]
    assert shown["TCP upload sum"] == pytest.approx([sum(both) / 1e6 for both in zip(*up, strict=True)])
    assert shown["rrul_be_nflows"][:3] == pytest.approx([0.0, 0.1, 0.2])
    assert is_drawn(tmp_path, file, "all_scaled")
    # Seen from the other side the download goes up.
    file = scenario.set({"flow.upload.count": 0}).run().flent(tmp_path / "up.flent", client="server")
    assert "TCP upload::1" in table(tmp_path, file)
    assert is_drawn(tmp_path, file, "totals")
    file = scenario.set({"flow.upload.count": 0, "flow.download.count": 0}).run().flent(tmp_path / "none.flent.gz")
    assert set(table(tmp_path, file)) == {"ping", "Ping (ms) ICMP", "Ping (ms) ICMP call (extra)"}
    assert is_drawn(tmp_path, file, "ping")


def test_the_same_run_is_the_same_file(call: mw.Scenario, tmp_path: Path) -> None:
    first = call.run().flent(tmp_path / "run.flent.gz").read_bytes()
    plain = call.run().flent(tmp_path / "run.flent").read_text()
    assert call.run().flent(tmp_path / "run.flent.gz").read_bytes() == first
    unpacked, read = (json.loads(text) for text in (gzip.decompress(first), plain))
    assert unpacked["metadata"].pop("DATA_FILENAME") == "run.flent.gz"
    assert read["metadata"].pop("DATA_FILENAME") == "run.flent"
    assert unpacked == read


def test_errors_say_what_would_be_right(call: mw.Scenario, tmp_path: Path) -> None:
    run = call.run()
    with pytest.raises(ValueError, match=r"run.json: flent reads files whose name ends in .flent.gz"):
        run.flent(tmp_path / "run.json")
    with pytest.raises(ValueError, match="no flow begins or ends at `router`: choose among client, server"):
        run.flent(tmp_path / "run.flent.gz", client="router")
