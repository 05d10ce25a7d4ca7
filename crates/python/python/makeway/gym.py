# SPDX-License-Identifier: MIT OR Apache-2.0
"""Environments of Gymnasium in which an agent is the rate controller of a media flow. Needs `pip install makeway[gym]`.

    env = mw.gym.RateControl(scenario, "call", every="100ms")
    observation, info = env.reset(seed=1)
    observation, reward, terminated, truncated, info = env.step(env.action("1mbit"))

`gymnasium.make("makeway.gym:makeway/RateControl-v0", scenario=scenario, flow="call")` is the same environment.

The flow has `rate = "external"` in the scenario. The simulated time pauses between two steps; the agent
knows what a sender knows: its own counts, and the receiver's reports, which travel back over the network.
Documentation: docs/python.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from makeway import _makeway
from makeway._scenario import Run

try:
    import gymnasium
    import numpy as np
    from gymnasium import spaces
    from gymnasium.utils import seeding
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
    from numpy.typing import NDArray
except ImportError as error:
    raise ImportError(f"makeway.gym needs Gymnasium 1.1 or newer, and NumPy: pip install 'makeway[gym]' ({error})") from error

if TYPE_CHECKING:
    from collections.abc import Callable

    from makeway._scenario import Scenario

__all__ = ["OBSERVATION", "Interval", "RateControl", "RateControlVector", "Reward"]

OBSERVATION = ("rate", "sent", "delivered", "delay_p50", "delay_p95", "delay_max", "loss", "rtt", "backlog")
"""Names of the values of an observation, in their order.

`rate`, `sent` and `delivered` are rates on the scale of actions, from -2 to 2: -1 is `least`, 1 is `most`, by the logarithm.
Delays above the base, `rtt`, and `backlog` (the time that the sender's queue takes at the rate) are in seconds, 10 at most;
`loss` is from 0 to 1.
"""

_LOW = np.array([-2.0, -2.0, -2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
_HIGH = np.array([2.0, 2.0, 2.0, 10.0, 10.0, 10.0, 1.0, 10.0, 10.0])
_COLUMNS = {name: place for place, name in enumerate(_makeway.OBSERVED)}
_SEEDS = 1 << 32


def _replication(seed: int) -> int:
    if seed >= 1 << 64:
        raise ValueError(f"a seed of {seed}: give one below 2**64, the number of a replication")
    return seed


class Interval(NamedTuple):
    """A step of an episode, in units of measurement. Payload is counted, without headers."""

    time_s: float
    """Its end, from the start of traffic."""
    length_s: float
    rate_bps: float
    """The rate that the agent set."""
    sent_bps: float
    delivered_bps: float
    """Rate of arrivals by the receiver's clock, as reports told. It falls while no report comes."""
    delay_p50_s: float
    """Quantiles of the one-way delay of reported packets, above `base_s`; those of the interval before, if there were none."""
    delay_p95_s: float
    delay_max_s: float
    base_s: float
    """The least one-way delay of the episode so far."""
    rtt_s: float
    """Smoothed; 0 before the first report."""
    loss: float
    """Lost packets by all packets of which reports told, 0 to 1."""
    marks: float
    """Packets with an ECN mark by all that arrived, 0 to 1."""
    sent_packets: float
    delivered_packets: float
    lost_packets: float
    backlog_packets: float
    """Datagrams in the sender's queue at the end."""
    backlog_bytes: float


@dataclass(frozen=True)
class Reward:
    """Reward of a step: the delivered rate on a logarithmic scale from 0 (`least`) to 1 (`most`), less delay and loss.

    `ln(delivered / least) / ln(most / least) - delay * delay_p95_s - loss * loss`; a rate below `least` counts as `least`.
    From 50 kbit/s to 10 Mbit/s, twice the rate is worth 0.13; with a `delay` of 2, so are 65 ms in queues.
    """

    least_bps: float
    most_bps: float
    delay: float = 2.0
    """Price of a second in queues."""
    loss: float = 2.0
    """Price of the loss of all packets."""

    def __call__(self, interval: Interval) -> float:
        rate = max(interval.delivered_bps, self.least_bps)
        share = math.log(rate / self.least_bps) / math.log(self.most_bps / self.least_bps)
        return share - self.delay * interval.delay_p95_s - self.loss * interval.loss


class _Control:
    """Spaces, rates and rewards: those of one environment are those of a vector."""

    def __init__(
        self,
        scenario: Scenario,
        flow: str,
        every: str,
        least: str,
        most: str,
        reward: Callable[[Interval], float] | None,
        count: int,
    ) -> None:
        texts: list[tuple[str, object, str]] = [("every", every, "100ms"), ("least", least, "50kbit"), ("most", most, "10mbit")]
        for name, value, like in texts:
            if not isinstance(value, str):
                raise TypeError(f"{name}={value!r}: give text with a unit, like {like!r}")
        self.least = _makeway.rate_bps(least)
        self.most = _makeway.rate_bps(most)
        if not 0 < self.least < self.most:
            raise ValueError(f"least={least!r}, most={most!r}: give a rate above 0 and a larger one, like '50kbit' and '10mbit'")
        self.span = math.log(self.most / self.least)
        self.reward = Reward(self.least, self.most) if reward is None else reward
        inner = getattr(scenario, "_inner", None)
        if inner is None:
            kind = type(scenario).__name__
            raise TypeError(f"scenario is of type {kind}: give a makeway.Scenario, like mw.Scenario('call.toml')")
        self.episodes = _makeway.Episodes(inner, flow, every, count)
        self.count = count
        self.observation_space = spaces.Box(_LOW.astype(np.float32), _HIGH.astype(np.float32), dtype=np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), dtype=np.float32)

    def action(self, rate: str) -> NDArray[np.float32]:
        bps = _makeway.rate_bps(rate)
        if not self.least <= bps <= self.most:
            raise ValueError(f"a rate of {rate}: give one from {self.least} to {self.most} bit/s, or change `least` and `most`")
        return np.array([2.0 * math.log(bps / self.least) / self.span - 1.0], dtype=np.float32)

    def rate(self, action: float) -> int:
        """In bit/s; five digits, so that a round rate stays round in single precision."""
        if not math.isfinite(action):
            raise ValueError(f"an action of {action}: give a number from -1 to 1")
        share = (min(max(action, -1.0), 1.0) + 1.0) / 2.0
        return round(float(f"{self.least * math.exp(share * self.span):.5g}"))

    def numbers(self, actions: object) -> list[float]:
        """One for each environment."""
        values = np.asarray(actions, dtype=np.float64)
        if values.size != self.count:
            count = "one number" if self.count == 1 else f"{self.count} numbers, one for each environment,"
            raise ValueError(f"an action of shape {values.shape}: give {count} from -1 to 1")
        return values.reshape(self.count).tolist()

    def observe(self, rows: NDArray[np.float64]) -> NDArray[np.float32]:
        """Of one row, or of many."""

        def column(name: str) -> NDArray[np.float64]:
            return rows[..., _COLUMNS[name]]

        def scaled(name: str) -> NDArray[np.float64]:
            # A thousandth of a bit/s for none at all.
            return 2.0 * np.log(np.maximum(column(name), 1e-3) / self.least) / self.span - 1.0

        values = [
            scaled("rate_bps"),
            scaled("sent_bps"),
            scaled("delivered_bps"),
            column("delay_p50_s"),
            column("delay_p95_s"),
            column("delay_max_s"),
            column("loss"),
            column("rtt_s"),
            column("backlog_bytes") * 8.0 / np.maximum(column("rate_bps"), 1.0),
        ]
        return np.clip(np.stack(values, axis=-1), _LOW, _HIGH).astype(np.float32)

    def interval(self, row: list[float]) -> Interval:
        return Interval._make(row[: len(Interval._fields)])


class RateControl(gymnasium.Env[NDArray[np.float32], NDArray[np.float32]]):
    """An agent sets the rate of a flow of kind `media` with `rate = "external"`.

    An action is a number from -1 (`least`) to 1 (`most`), by the logarithm of the rate, which counts payload; a number beyond
    is clipped. `action("1mbit")` is that of a rate. An observation has the values of `OBSERVATION`, and `info` those of
    `Interval`.
    An episode begins with the flow and is truncated when the flow stops, or with the scenario; it never terminates.

    `reset(seed=n)` makes replication n of the scenario: its random numbers, and its flows' starts, are those of
    `scenario.run(replication=n)`. Without a seed the replication is drawn.

    Args:
        scenario: with the flow.
        flow: its name; `call-2` for the second of `count` flows `call`.
        every: time of a step, 1 ms to 60 s.
        least, most: rates of the actions -1 and 1.
        reward: of a step; `Reward` with `least` and `most`, if None.

    Raises:
        ScenarioError: there is no such flow, or its rate is not set from outside; it names a flow or a setting that would do.
    """

    def __init__(
        self,
        scenario: Scenario,
        flow: str,
        every: str = "100ms",
        *,
        least: str = "50kbit",
        most: str = "10mbit",
        reward: Callable[[Interval], float] | None = None,
    ) -> None:
        self._control = _Control(scenario, flow, every, least, most, reward, 1)
        self.observation_space = self._control.observation_space
        self.action_space = self._control.action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed, options=options)
        replication = int(self.np_random.integers(1, _SEEDS)) if seed is None else _replication(seed)
        observation, interval, _ = self._seen(self._control.episodes.reset([replication]))
        return observation, interval._asdict()

    def step(self, action: NDArray[np.float32]) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        rate = self._control.rate(self._control.numbers(action)[0])
        observation, interval, is_over = self._seen(self._control.episodes.step([rate]))
        return observation, float(self._control.reward(interval)), False, is_over, interval._asdict()

    def action(self, rate: str) -> NDArray[np.float32]:
        """The action of a rate like `1mbit`."""
        return self._control.action(rate)

    def run(self) -> Run:
        """Ends the episode: the rate stays until the end of the scenario. The result is as that of `scenario.run()`."""
        return Run(self._control.episodes.run(0))

    def close(self) -> None:
        """Drops the episode and its memory; `reset` begins another."""
        self._control.episodes.close()

    def _seen(self, rows: list[list[float] | None]) -> tuple[NDArray[np.float32], Interval, bool]:
        row = rows[0]
        assert row is not None
        return self._control.observe(np.array(row)), self._control.interval(row), row[-1] > 0.0


class RateControlVector(VectorEnv[NDArray[np.float32], NDArray[np.float32], NDArray[Any]]):
    """Many episodes of one scenario beside each other, on threads and without the interpreter's lock: `RateControl` for each.

    An episode that has ended is reset at the next step, whose action and reward do not count for it
    (`AutoresetMode.NEXT_STEP`). A seed n makes replication n in the first environment, n + 1 in the second and so on;
    `seed=[5, 5, 5]` the same one in each.

    Args:
        num_envs: number of environments.
        scenario, flow, every, least, most, reward: as of `RateControl`. The reward of each environment is computed by itself.
    """

    def __init__(
        self,
        scenario: Scenario,
        flow: str,
        every: str = "100ms",
        *,
        num_envs: int,
        least: str = "50kbit",
        most: str = "10mbit",
        reward: Callable[[Interval], float] | None = None,
    ) -> None:
        if num_envs < 1:
            raise ValueError(f"num_envs={num_envs}: give 1 or more")
        self._control = _Control(scenario, flow, every, least, most, reward, num_envs)
        self.num_envs = num_envs
        self.metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}
        self.single_observation_space = self._control.observation_space
        self.single_action_space = self._control.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._generators = [seeding.np_random()[0] for _ in range(num_envs)]
        self._ended = np.zeros(num_envs, dtype=np.bool_)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        if options is not None and "reset_mask" in options:
            raise ValueError("options={'reset_mask': ...}: episodes are reset by the step after their end, so reset all of them")
        count = self.num_envs
        seeds: Sequence[int | None]
        if seed is None:
            seeds = [None] * count
        elif isinstance(seed, Sequence):
            seeds = seed
        else:
            seeds = [seed + place for place in range(count)]
        if len(seeds) != count:
            raise ValueError(f"{len(seeds)} seeds for {count} environments: give one for each, or one number")
        super().reset(seed=seeds[0], options=options)
        for place, one in enumerate(seeds):
            if one is not None:
                self._generators[place] = seeding.np_random(one)[0]
        replications = [self._draw(place) if one is None else _replication(one) for place, one in enumerate(seeds)]
        self._ended[:] = False
        self.closed = False
        rows = np.array(self._control.episodes.reset(replications), dtype=np.float64)
        return self._control.observe(rows), self._infos(rows)

    def step(
        self, actions: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        values = self._control.numbers(actions)
        begins = self._ended.tolist()
        rates = [None if begun else self._control.rate(value) for value, begun in zip(values, begins, strict=True)]
        stepped = self._control.episodes.step(rates)
        if any(begins):
            replications = [self._draw(place) if begun else None for place, begun in enumerate(begins)]
            new = self._control.episodes.reset(replications)
            stepped = [fresh if begun else row for row, fresh, begun in zip(stepped, new, begins, strict=True)]
        rewards = np.zeros(self.num_envs)
        for place, (row, begun) in enumerate(zip(stepped, begins, strict=True)):
            if row is not None and not begun:
                rewards[place] = self._control.reward(self._control.interval(row))
        rows = np.array(stepped, dtype=np.float64)
        self._ended = rows[:, -1] > 0.0
        terminations = np.zeros(self.num_envs, dtype=np.bool_)
        return self._control.observe(rows), rewards, terminations, self._ended.copy(), self._infos(rows)

    def action(self, rate: str) -> NDArray[np.float32]:
        """The actions of a rate like `1mbit` in all environments."""
        return np.tile(self._control.action(rate), (self.num_envs, 1))

    def run(self, place: int) -> Run:
        """Ends the episode of an environment; see `RateControl.run`. It is begun again by `reset` only."""
        return Run(self._control.episodes.run(place))

    def close_extras(self, **kwargs: Any) -> None:
        """Drops all episodes and their memory, for `close`."""
        self._control.episodes.close()

    def _draw(self, place: int) -> int:
        return int(self._generators[place].integers(1, _SEEDS))

    def _infos(self, rows: NDArray[np.float64]) -> dict[str, Any]:
        infos: dict[str, Any] = {}
        for place, name in enumerate(Interval._fields):
            infos[name] = rows[:, place].copy()
            infos[f"_{name}"] = np.ones(self.num_envs, dtype=np.bool_)
        return infos


gymnasium.register(
    id="makeway/RateControl-v0",
    entry_point="makeway.gym:RateControl",
    vector_entry_point="makeway.gym:RateControlVector",
)
