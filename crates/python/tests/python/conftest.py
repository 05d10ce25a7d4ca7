# SPDX-License-Identifier: MIT OR Apache-2.0
"""A short scenario for tests."""

from __future__ import annotations

from pathlib import Path

import makeway as mw
import pytest

ROOT = Path(__file__).resolve().parents[4]

TEXT = (ROOT / "crates/store/src/sample.toml").read_text()

DISCIPLINE = "link.line.queue.discipline"


@pytest.fixture
def call() -> mw.Scenario:
    return mw.Scenario(TEXT)


@pytest.fixture
def sweep(call: mw.Scenario) -> mw.Sweep:
    return call.sweep({DISCIPLINE: ["fifo", "sqf"], "link.line.rate": ["1mbit", "2mbit"]}, replications=3)
