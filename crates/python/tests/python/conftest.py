# SPDX-License-Identifier: MIT OR Apache-2.0
"""A short scenario for tests."""

from __future__ import annotations

from pathlib import Path

import makeway as mw
import pytest

ROOT = Path(__file__).resolve().parents[4]

TEXT = """
title = "A call beside a download"
duration = "2s"
warmup = "500ms"

[node.server]
[node.client]

[link.line]
between = ["server", "client"]
rate = "2mbit"
delay = "10ms"
queue = { at = "server", discipline = "fifo", limit = "50 packets" }

[flow.call]
kind = "poisson"
from = "server"
to = "client"
rate = "80kbit"

[flow.download]
kind = "bulk"
from = "server"
to = "client"
"""

DISCIPLINE = "link.line.queue.discipline"


@pytest.fixture
def call() -> mw.Scenario:
    return mw.Scenario(TEXT)


@pytest.fixture
def sweep(call: mw.Scenario) -> mw.Sweep:
    return call.sweep({DISCIPLINE: ["fifo", "sqf"], "link.line.rate": ["1mbit", "2mbit"]}, replications=3)
