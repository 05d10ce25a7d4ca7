# SPDX-License-Identifier: MIT OR Apache-2.0
"""A run with the kernel's TCP, by the program that MAKEWAY_PROGRAM names, in network namespaces."""

from __future__ import annotations

import os
from pathlib import Path

import makeway as mw
import pytest

PROGRAM = os.environ.get("MAKEWAY_PROGRAM", "")
SAMPLE = Path(__file__).resolve().parents[3] / "store/src/sample.toml"

pytestmark = pytest.mark.skipif(not PROGRAM, reason="MAKEWAY_PROGRAM names no program")


def test_a_download_has_the_kernels_tcp() -> None:
    scenario = mw.Scenario(SAMPLE).set({"duration": "3s", "warmup": "1s"})
    run = scenario.run(world="netns", program=PROGRAM)
    assert run.world == "netns"
    assert run.flows["name"] == scenario.run().flows["name"] == ["call", "download"]
    goodput = run.flows["goodput_bps"]
    # As much as the machine lets through, and no more than the link.
    assert 0 < goodput[0] < 2e5
    assert 1e5 < goodput[1] < 2.1e6
    assert run.queues["packets_out"][0] > 10
    assert "kernel" in run.report()["environment"]
    assert max(run.series("goodput_bps")["value"]) > 1e5
