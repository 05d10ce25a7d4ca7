# SPDX-License-Identifier: MIT OR Apache-2.0
"""Trains a small rate controller and compares it with the five of makeway on calls like those of RFC 8867.

    python crates/python/examples/train_rate_controller.py                     some minutes on two cores
    python crates/python/examples/train_rate_controller.py --out policy.json   keeps the policy
    python crates/python/examples/train_rate_controller.py --policy policy.json   compares only
    python crates/python/examples/train_rate_controller.py --json FILE         keeps the figures, for scripts/renew controller

The policy is linear: nine weights of the last observation say by how much the rate rises or falls, at most by MOST_STEP of the
scale of actions in a step. The cross-entropy method (R. Y. Rubinstein, 1999) draws weights from a Gaussian, runs an episode
with each in every training case, and fits the Gaussian to the best of them. No gradient, NumPy only.

Training has replications from 1001 on, and the comparison those from 1 on, so no random number of it was seen before; the
network's capacities and the other traffic are the same. Take it as an example of the environment, not as a controller to use.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import makeway as mw
import numpy as np
from makeway import gym

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

SCENARIOS = Path(__file__).resolve().parents[3] / "scenarios/rfc8867"

CASES: dict[str, tuple[str, dict[str, mw.Setting]]] = {
    "5.1, a rate that changes": ("5-1.toml", {}),
    "5.3, a call in both directions": ("5-3.toml", {}),
    "5.6, beside a long download": ("5-6.toml", {}),
    "5.7, beside ten short downloads": ("5-7.toml", {"flow.call.count": 1, "duration": "120s"}),
}
"""Cases with one call whose controller is compared; the answer of 5.3 has TFRC. 5.7 has two calls in the RFC."""
TRAINING = ("5.1, a rate that changes", "5.6, beside a long download")
CONTROLLERS = ("tfrc", "ccid2", "abrc", "scream", "gcc")

FEATURES = ("one", "headroom", "behind", "delay", "rising", "worst", "loss", "rtt", "backlog")
MOST_STEP = 0.3
LEAST, MOST = "100kbit", "2mbit"
"""Around those of the encoder, 150 kbit/s to 1.5 Mbit/s."""
FIRST_TRAINING = 1001


def scenario(case: str, rate: str, seconds: float | None) -> mw.Scenario:
    file, settings = CASES[case]
    settings = {**settings, "flow.call.rate": rate}
    if seconds is not None:
        settings["duration"] = f"{seconds:g}s"
    return mw.Scenario(SCENARIOS / file).set(settings)


def features(observation: NDArray[np.float32], before: NDArray[np.float32]) -> NDArray[np.float64]:
    """Of many observations, a row each, and of those before."""
    now = dict(zip(gym.OBSERVATION, observation.T.astype(np.float64), strict=True))
    last = dict(zip(gym.OBSERVATION, before.T.astype(np.float64), strict=True))
    values = {
        "one": np.ones(len(observation)),
        # Room above the rate, so that there is something to say of a low one.
        "headroom": 1.0 - now["rate"],
        "behind": np.clip(now["rate"] - now["delivered"], -1.0, 1.0),
        "delay": 5.0 * now["delay_p50"],
        "rising": 20.0 * (now["delay_p50"] - last["delay_p50"]),
        "worst": 5.0 * now["delay_max"],
        "loss": 5.0 * now["loss"],
        "rtt": 5.0 * now["rtt"],
        "backlog": 5.0 * now["backlog"],
    }
    return np.clip(np.stack([values[name] for name in FEATURES], axis=-1), -3.0, 3.0)


def act(weights: Any, observation: NDArray[np.float32], before: NDArray[np.float32]) -> NDArray[np.float32]:
    """An action for each row, by the weights of that row."""
    wish = np.sum(weights * features(observation, before), axis=-1)
    action = np.clip(observation[:, 0] + MOST_STEP * np.tanh(wish), -1.0, 1.0)
    return action.astype(np.float32).reshape(-1, 1)


def score(envs: gym.RateControlVector, weights: Any, replication: int) -> NDArray[np.float64]:
    """Mean reward of an episode with each row of weights, all in the same replication."""
    observation, _ = envs.reset(seed=[replication] * envs.num_envs)
    before = observation
    total, steps, is_over = np.zeros(envs.num_envs), 0, False
    while not is_over:
        action = act(weights, observation, before)
        before = observation
        observation, rewards, _, truncated, _ = envs.step(action)
        total += rewards
        steps += 1
        is_over = bool(truncated.all())
    return total / steps


def train(generations: int, population: int, seconds: float | None, seed: int) -> Any:
    """Mean of the Gaussian after the last generation."""
    random = np.random.default_rng(seed)
    envs = [
        gym.RateControlVector(scenario(case, "external", seconds), "call", num_envs=population, least=LEAST, most=MOST)
        for case in TRAINING
    ]
    # It begins with what anyone would write: up while the queue is short, down as it grows.
    mean = np.array([0.1, 0.0, 0.0, -0.5, -0.5, 0.0, -0.5, 0.0, 0.0])
    deviation = np.full(len(FEATURES), 0.5)
    elite = max(2, population // 5)
    for generation in range(generations):
        weights = mean + deviation * random.standard_normal((population, len(FEATURES)))
        # The mean itself is one of them.
        weights[0] = mean
        scores = np.mean([score(env, weights, FIRST_TRAINING + generation) for env in envs], axis=0)
        best = weights[np.argsort(scores)[-elite:]]
        mean = best.mean(axis=0)
        # A part of the old one keeps it from ending too soon.
        deviation = 0.8 * best.std(axis=0) + 0.19 * deviation
        rewards = f"{scores[0]:7.4f} of the policy, {scores.max():7.4f} of the best"
        print(f"generation {generation + 1:3}: mean reward {rewards}", flush=True)
    return mean


def run_learned(case: str, weights: Any, seconds: float | None, replication: int) -> mw.Run:
    env = gym.RateControl(scenario(case, "external", seconds), "call", least=LEAST, most=MOST)
    first, _ = env.reset(seed=replication)
    observation = first.reshape(1, -1)
    before, truncated = observation, False
    while not truncated:
        action = act(weights, observation, before)[0]
        before = observation
        new, _, _, truncated, _ = env.step(action)
        observation = new.reshape(1, -1)
    return env.run()


def figures(run: mw.Run) -> list[float]:
    """Of the call: kbit/s, ms of delay that 1 % of the packets exceed, % lost, % of audio and of video in time."""
    flow = next(row for row in run.flows.rows() if row["name"] == "call")
    classes = {row["class"]: row for row in run.classes.rows() if row["flow"] == "call"}
    in_time = [100.0 * (classes[name]["on_time"] or 0.0) for name in ("audio", "video")]
    return [flow["goodput_bps"] / 1e3, flow["delay_p99_ms"], 100.0 * flow["loss"], *in_time]


HEAD = ("call, kbit/s", "p99 delay, ms", "lost, %", "audio in time, %", "video in time, %")


def compare(weights: Any, seconds: float | None, replications: int) -> dict[tuple[str, str], list[float]]:
    """Means over replications, by case and controller."""

    def one(case: str, controller: str, replication: int) -> list[float]:
        if controller == "learned":
            return figures(run_learned(case, weights, seconds, replication))
        return figures(scenario(case, controller, seconds).run(replication=replication))

    means: dict[tuple[str, str], list[float]] = {}
    with ThreadPoolExecutor() as pool:
        for case in CASES:
            for controller in ("learned", *CONTROLLERS):
                runs = pool.map(partial(one, case, controller), range(1, replications + 1))
                means[case, controller] = np.mean(list(runs), axis=0).tolist()
    return means


def table(means: dict[tuple[str, str], list[float]]) -> str:
    lines = [f"{'case':34}{'controller':12}" + "".join(f"{name:>18}" for name in HEAD)]
    for (case, controller), values in means.items():
        lines.append(f"{case:34}{controller:12}" + "".join(f"{value:18.1f}" for value in values))
    return "\n".join(lines)


def rows(means: dict[tuple[str, str], list[float]], replications: int, trained_s: float | None) -> list[dict[str, Any]]:
    """For JSON: a row for each case and controller."""
    shared = {"replications": replications, "trained_s": trained_s}
    return [
        {"case": case, "controller": controller, **shared, "figures": dict(zip(HEAD, values, strict=True))}
        for (case, controller), values in means.items()
    ]


def main(arguments: Sequence[str]) -> dict[tuple[str, str], list[float]]:
    parser = argparse.ArgumentParser(description="Trains a rate controller by the cross-entropy method and compares it.")
    parser.add_argument("--generations", type=int, default=25)
    parser.add_argument("--population", type=int, default=40)
    parser.add_argument("--seconds", type=float, help="length of every episode and run; that of the scenarios unless given")
    parser.add_argument("--replications", type=int, default=10, help="of the comparison")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--policy", type=Path, help="weights of an earlier training")
    parser.add_argument("--out", type=Path, help="where to keep the weights")
    parser.add_argument("--json", type=Path, help="where to write the figures of the comparison")
    given = parser.parse_args(arguments)
    trained_s = None
    if given.policy is not None:
        stored = json.loads(given.policy.read_text())
        weights = np.array([stored[name] for name in FEATURES])
    else:
        began = time.monotonic()
        weights = train(given.generations, given.population, given.seconds, given.seed)
        trained_s = time.monotonic() - began
        print(f"trained in {trained_s:.0f} s")
        print(", ".join(f"{name} {weight:.3f}" for name, weight in zip(FEATURES, weights, strict=True)))
    if given.out is not None:
        given.out.write_text(json.dumps(dict(zip(FEATURES, weights.tolist(), strict=True)), indent=1))
    means = compare(weights, given.seconds, given.replications)
    print(table(means))
    if given.json is not None:
        given.json.write_text(json.dumps(rows(means, given.replications, trained_s), indent=1) + "\n")
    return means


if __name__ == "__main__":
    main(sys.argv[1:])
