# SPDX-License-Identifier: MIT OR Apache-2.0
"""A discipline and a sender by themselves, for a simulator or a test of your own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from makeway import _makeway
from makeway._scenario import as_text

if TYPE_CHECKING:
    from makeway._scenario import Setting

T = TypeVar("T")


class Scheduler(Generic[T]):
    """A queueing discipline: packets in, packets out. Times are in seconds and never run backwards.

        queue = mw.Scheduler("sqf", rate="10mbit", limit="100 packets")
        queue.enqueue(0.0, "voice", size=200, flow=1)
        queue.dequeue(0.001)

    Args:
        discipline: `fifo`, `sqf`, `fq-codel`, `makeway` and so on.
        rate: of the link, which some disciplines need.
        seed: of its random numbers.
        keys: others of a scenario's `queue` table: `limit`, `quantum`, `codel={"target": "20ms"}`.
    """

    def __init__(self, discipline: str, *, rate: str = "10mbit", seed: int = 1, **keys: Setting) -> None:
        settings = [f"rate={rate}", f"queue.discipline={discipline}"]
        settings += [f"queue.{key}={as_text(value)}" for key, value in keys.items()]
        self._inner = _makeway.Scheduler(settings, seed)

    @property
    def discipline(self) -> str:
        return self._inner.discipline

    def enqueue(self, now: float, packet: T, *, size: int, flow: int = 0, user: int = 0) -> None:
        """Takes a packet of `size` bytes on the wire, or drops it or another: see `drops`."""
        self._inner.enqueue(now, packet, size, flow, user)

    def dequeue(self, now: float) -> T | None:
        """The packet to send next, if one may leave."""
        return self._inner.dequeue(now)

    def drops(self) -> list[tuple[T, str]]:
        """Dropped packets since the last call, with the reason."""
        return self._inner.drops()

    @property
    def next_departure(self) -> float | None:
        """The earliest time at which `dequeue` may give a packet."""
        return self._inner.next_departure()

    @property
    def backlog(self) -> tuple[int, int]:
        """Packets and bytes held."""
        return self._inner.backlog()


class Sender(Generic[T]):
    """A sender of datagrams with classes and deadlines, before a path whose rate you know.

        sender = mw.Sender("sbpn2", rate="1mbit", one_way="20ms")
        sender.enqueue(0.0, frame, size=1000, class_=1, deadline=0.2)
        while (at := sender.poll_timeout) is not None:
            print(sender.poll_transmit(at))

    Args:
        policy: `fifo`, `prio`, `sbpn1`, `sbpn2`, `weighted`, `when-full` or `late-last`.
        rate: of payload; `set_rate` changes it.
        one_way: delay to the receiver.
        packets, size: the most that waits.
        largest: payload of a packet in bytes.
    """

    def __init__(
        self,
        policy: str = "sbpn2",
        *,
        rate: str,
        one_way: str | None = None,
        packets: int = 1024,
        size: str = "1MB",
        largest: int = 1400,
    ) -> None:
        self._inner = _makeway.Sender(policy, rate, one_way, packets, size, largest)

    def enqueue(self, now: float, payload: T, *, size: int, class_: int = 0, deadline: float, frame: int | None = None) -> int:
        """Takes a datagram, 0 being the most important class; returns its number, from 0."""
        return self._inner.enqueue(now, payload, size, class_, deadline, frame)

    def poll_transmit(self, now: float) -> tuple[int, T] | None:
        """The datagram to send now, with its number."""
        return self._inner.poll_transmit(now)

    @property
    def poll_timeout(self) -> float | None:
        """When to ask `poll_transmit` again, unless a datagram comes before."""
        return self._inner.poll_timeout()

    def outcomes(self) -> list[tuple[int, int, str]]:
        """Ends of datagrams since the last call: number, class, and `sent`, `late`, `expired`, `evicted` or `too-large`."""
        return self._inner.outcomes()

    def set_rate(self, now: float, rate: str) -> None:
        """The path's rate from now on."""
        self._inner.set_rate(now, rate)

    @property
    def backlog(self) -> tuple[int, int]:
        """Datagrams and bytes that wait."""
        return self._inner.backlog()
