# SPDX-License-Identifier: MIT OR Apache-2.0
"""A discipline and a sender by themselves."""

from __future__ import annotations

import makeway as mw
import pytest


def test_sqf_serves_the_shortest_queue_first() -> None:
    queue: mw.Scheduler[str] = mw.Scheduler("sqf", limit="4 packets")
    for n in range(3):
        queue.enqueue(0.0, f"bulk {n}", size=1500, flow=0)
    queue.enqueue(0.0, "voice", size=200, flow=1)
    assert queue.backlog == (4, 4700)
    queue.enqueue(0.0, "voice 2", size=200, flow=1)
    assert queue.drops() == [("bulk 0", "longest-queue")]
    assert queue.next_departure == 0.0
    assert [queue.dequeue(0.001) for _ in range(5)] == ["voice", "voice 2", "bulk 1", "bulk 2", None]
    assert queue.next_departure is None


def test_a_discipline_has_the_keys_and_the_errors_of_a_scenario() -> None:
    assert mw.Scheduler("fq-codel", quantum="300B", codel={"target": "20ms"}).discipline == "fq-codel"
    with pytest.raises(mw.ScenarioError, match="is not a discipline: choose fifo"):
        mw.Scheduler("sfq")
    with pytest.raises(mw.ScenarioError, match="--set limit=many"):
        mw.Scheduler("sqf", limit="many")
    queue: mw.Scheduler[int] = mw.Scheduler("fifo")
    queue.enqueue(1.0, 1, size=100)
    for wrong in (0.5, -1.0, float("nan")):
        with pytest.raises(ValueError, match="a time of"):
            queue.dequeue(wrong)
    with pytest.raises(ValueError, match="a packet of 0 B"):
        queue.enqueue(1.0, 1, size=0)
    with pytest.raises(ValueError, match="flows are numbered below"):
        queue.enqueue(1.0, 1, size=1, flow=1 << 20)


def test_a_sender_sends_the_important_first_and_drops_the_late() -> None:
    sender: mw.Sender[str] = mw.Sender("sbpn2", rate="1mbit", one_way="20ms")
    sender.enqueue(0.0, "video", size=1000, class_=1, deadline=0.2)
    sender.enqueue(0.0, "old video", size=1000, class_=1, deadline=0.021)
    sender.enqueue(0.0, "audio", size=160, class_=0, deadline=0.15)
    wire: list[str] = []
    now = 0.0
    while (due := sender.poll_timeout) is not None:
        now = max(now, due)
        if sent := sender.poll_transmit(now):
            wire.append(sent[1])
    assert wire == ["audio", "video"]
    assert [(number, outcome) for number, _, outcome in sender.outcomes()] == [(2, "sent"), (1, "expired"), (0, "sent")]
    sender.set_rate(now, "0bit")
    sender.enqueue(now, "more", size=1000, deadline=10.0)
    assert sender.backlog == (1, 1000)
    with pytest.raises(mw.ScenarioError, match="not a policy"):
        mw.Sender("best", rate="1mbit")
