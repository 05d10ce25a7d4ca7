# SPDX-License-Identifier: MIT OR Apache-2.0
"""Environments of Gymnasium."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any, cast

import gymnasium
import makeway as mw
import numpy as np
import pytest
from conftest import ROOT
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from makeway import _makeway, gym

CALL = (ROOT / "crates/sim/tests/session.toml").read_text()

STEPS = 60


@pytest.fixture
def scenario() -> mw.Scenario:
    return mw.Scenario(CALL).set({"duration": "6s", "warmup": "1s"})


def episode(env: gym.RateControl, seed: int, actions: np.ndarray[Any, Any]) -> list[tuple[list[float], float, dict[str, Any]]]:
    """Observations, rewards and infos of an episode, with an action for each step until its end."""
    observation, info = env.reset(seed=seed)
    seen = [(observation.tolist(), 0.0, info)]
    for action in actions:
        observation, reward, terminated, truncated, info = env.step(np.asarray([action], dtype=np.float32))
        assert not terminated
        seen.append((observation.tolist(), reward, info))
        if truncated:
            break
    return seen


def walk(seed: int, steps: int = STEPS) -> np.ndarray[Any, Any]:
    """Actions that wander."""
    return np.clip(np.cumsum(np.random.default_rng(seed).normal(0.0, 0.2, steps)), -1.0, 1.0)


def test_it_passes_the_check_of_gymnasium(scenario: mw.Scenario) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        check_env(gym.RateControl(scenario, "call"), skip_render_check=True)
        # That of alternative render modes makes it again by its name.
        made = gymnasium.make("makeway.gym:makeway/RateControl-v0", scenario=scenario, flow="call", most="5mbit")
        check_env(made.unwrapped)
    assert isinstance(made.unwrapped, gym.RateControl)
    assert made.reset(seed=5)[0].tolist() == gym.RateControl(scenario, "call", most="5mbit").reset(seed=5)[0].tolist()
    many = gymnasium.make_vec("makeway/RateControl-v0", num_envs=3, scenario=scenario, flow="call")
    assert isinstance(many.unwrapped, gym.RateControlVector)
    assert many.reset(seed=5)[0].shape == (3, len(gym.OBSERVATION))


def test_a_seed_is_a_replication_and_gives_the_same_trajectory(scenario: mw.Scenario) -> None:
    env = gym.RateControl(scenario, "call")
    first, again, other = (episode(env, seed, walk(7)) for seed in (5, 5, 6))
    assert first == again
    assert first != other
    # A seed begins the sequence of replications too.
    starts: list[list[float]] = []
    for _ in range(2):
        env.reset(seed=3)
        env.step(env.action("1mbit"))
        starts.append([env.reset()[1]["time_s"] for _ in range(3)])
    assert starts[0] == starts[1]
    assert len(set(starts[0])) == 3


def test_a_rate_that_stays_gives_the_figures_of_a_plain_run(scenario: mw.Scenario) -> None:
    env = gym.RateControl(scenario, "call")
    for replication, rate in [(0, "500kbit"), (4, "1234500bit")]:
        _, info = env.reset(seed=replication)
        truncated = False
        while not truncated:
            _, _, _, truncated, info = env.step(env.action(rate))
        assert info["rate_bps"] == _makeway.rate_bps(rate)
        run = env.run()
        plain = scenario.set({"flow.call.rate": rate}).run(replication=replication)
        assert run.flows.rows() == plain.flows.rows()
        assert run.queues.rows()[0] == plain.queues.rows()[0]
        # Before the flow starts there is the first rate.
        assert run.series("rate_bps").rows()[1:] == plain.series("rate_bps").rows()[1:]
        assert run.replication == replication


def test_an_episode_goes_from_the_start_of_the_flow_to_its_end(scenario: mw.Scenario) -> None:
    env = gym.RateControl(scenario.set({"flow.call.start": "1s", "flow.call.stop": "4s"}), "call", every="70ms")
    seen = episode(env, 0, walk(1, 100))
    times = [info["time_s"] for _, _, info in seen]
    assert times[0] == 1.0
    assert times[-1] == 4.0
    assert times[1:-1] == pytest.approx([1.0 + 0.07 * step for step in range(1, 43)])
    with pytest.raises(RuntimeError, match=r"the episode is over: call reset\(\)"):
        env.step(env.action("1mbit"))
    # The run may still be taken, once.
    assert env.run().flows["name"] == ["call", "other"]
    with pytest.raises(RuntimeError, match=r"its run was taken, .*: call reset\(\) first"):
        env.run()
    with pytest.raises(RuntimeError, match="has not begun"):
        gym.RateControl(scenario, "call").step(env.action("1mbit"))


def test_an_observation_tells_of_rates_delay_and_loss(scenario: mw.Scenario) -> None:
    env = gym.RateControl(scenario.set({"flow.other.count": 0}), "call", least="100kbit", most="10mbit")
    env.reset(seed=0)
    names = gym.OBSERVATION
    observation, info = np.zeros(0), {}
    for _ in range(30):
        observation, _, _, _, info = env.step(env.action("500kbit"))
    calm = dict(zip(names, observation.tolist(), strict=True))
    assert calm["rate"] == pytest.approx(2 * np.log10(5) / 2 - 1, abs=1e-4)
    assert calm["delivered"] == pytest.approx(calm["rate"], abs=0.02)
    assert calm["delay_max"] < 1e-5
    assert calm["loss"] == 0.0
    assert calm["rtt"] == pytest.approx(0.0895, abs=0.001)
    assert info["base_s"] == pytest.approx(0.048288, abs=1e-5)
    for _ in range(20):
        observation, _, _, _, info = env.step(env.action("2mbit"))
    full = dict(zip(names, observation.tolist(), strict=True))
    assert full["delay_p50"] == pytest.approx(0.2486, abs=0.02)
    assert full["loss"] > 0.3
    assert full["sent"] == pytest.approx(full["rate"], abs=0.05)
    assert full["delivered"] == pytest.approx(2 * np.log10(9.65) / 2 - 1, abs=0.05)
    assert info["delivered_bps"] == pytest.approx(965e3, rel=0.05)
    # A reward of its own; by the one of Reward, a full queue is worth less.
    reward = gym.Reward(100e3, 10e6)
    calm_interval = gym.Interval(*[0.0] * 17)._replace(delivered_bps=1e6)
    assert reward(calm_interval) == pytest.approx(0.5)
    assert reward(calm_interval._replace(delay_p95_s=0.25, loss=0.1)) == pytest.approx(0.5 - 0.5 - 0.2)
    mine = gym.RateControl(scenario, "call", reward=lambda interval: interval.time_s)
    assert [reward for _, reward, _ in episode(mine, 0, walk(1, 3))] == pytest.approx([0.0, 0.1, 0.2, 0.3])


def test_the_figures_of_both_halves_have_one_order() -> None:
    assert [*gym.Interval._fields, "over"] == _makeway.OBSERVED


def test_a_vector_equals_single_environments(scenario: mw.Scenario) -> None:
    count = 5
    vector = gym.RateControlVector(scenario, "call", num_envs=count)
    single = SyncVectorEnv([lambda: gym.RateControl(scenario, "call") for _ in range(count)])
    assert vector.metadata["autoreset_mode"] == single.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
    assert vector.observation_space == single.observation_space
    assert vector.action_space == single.action_space
    # Beyond the end of an episode, so that each is reset with a replication of its own.
    actions = np.stack([walk(place, 2 * STEPS) for place in range(count)], axis=1).astype(np.float32)
    both: list[Any] = [vector, single]
    begins = [of.reset(seed=11) for of in both]
    assert np.allclose(begins[0][0], begins[1][0])
    steps = [[of.step(action.reshape(count, 1)) for action in actions] for of in both]
    for ours, theirs in zip(*steps, strict=True):
        assert np.allclose(ours[0], theirs[0], rtol=1e-6, atol=1e-6)
        assert ours[0].dtype == theirs[0].dtype
        for place in (1, 2, 3):
            assert ours[place].tolist() == theirs[place].tolist()
        for name in gym.Interval._fields:
            assert ours[4][name].tolist() == theirs[4][name].tolist()
    assert any(step[3].any() for step in steps[0])


def test_a_vector_does_not_depend_on_threads(scenario: mw.Scenario) -> None:
    """With many environments a step takes long enough for several threads."""
    vector = gym.RateControlVector(scenario.set({"link.line.rate": "20mbit"}), "call", num_envs=64, most="20mbit")
    observations, _ = vector.reset(seed=[9] * 64)
    for action in walk(3, 20):
        actions = np.full((64, 1), action, dtype=np.float32)
        observations, rewards, _, _, _ = vector.step(actions)
        assert np.all(observations == observations[0])
        assert np.all(rewards == rewards[0])
    runs = [vector.run(place).fingerprint for place in (0, 63)]
    assert runs[0] == runs[1]


def test_it_runs_in_other_processes(scenario: mw.Scenario) -> None:
    def env() -> gym.RateControl:
        return gym.RateControl(scenario, "call")

    processes = AsyncVectorEnv([env, env], context="spawn")
    ours = gym.RateControlVector(scenario, "call", num_envs=2)
    assert np.allclose(processes.reset(seed=4)[0], ours.reset(seed=4)[0])
    assert np.allclose(processes.step(ours.action("900kbit"))[0], ours.step(ours.action("900kbit"))[0])
    processes.close()


def resident() -> int:
    """Bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_closed_environments_hold_no_memory(scenario: mw.Scenario) -> None:
    vector = gym.RateControlVector(scenario.set({"flow.call.count": 8}), "call-1", num_envs=50, every="2s")
    before = resident()
    held: list[int] = []
    for _ in range(3):
        vector.reset(seed=1)
        vector.step(vector.action("10mbit"))
        held.append(resident() - before)
        # An allocator keeps freed pages until it is told.
        vector.close()
        ctypes.CDLL(None).malloc_trim(0)
        held.append(resident() - before)
    assert min(held[::2]) > 10e6, held
    assert max(held[1::2]) < 5e6, held


def test_a_closed_environment_has_no_episode(scenario: mw.Scenario) -> None:
    with gym.RateControl(scenario, "call") as env:
        env.reset(seed=1)
    env.close()
    with pytest.raises(RuntimeError, match=r"the environment was closed: call reset\(\) first"):
        env.step(env.action("1mbit"))
    env.reset(seed=1)
    env.step(env.action("1mbit"))
    vector = gym.RateControlVector(scenario, "call", num_envs=2)
    for _ in range(2):
        vector.reset(seed=1)
        vector.step(vector.action("1mbit"))
        vector.close()
        with pytest.raises(RuntimeError, match=r"the environment was closed: call reset\(\) first"):
            vector.step(vector.action("1mbit"))


def test_errors_name_what_would_be_right(scenario: mw.Scenario) -> None:
    with pytest.raises(mw.ScenarioError, match="there is no flow `cal`: the rate of `call` is set from outside"):
        gym.RateControl(scenario, "cal")
    with pytest.raises(mw.ScenarioError, match="`other` is of kind poisson, which has no rate to set: the rate of `call`"):
        gym.RateControl(scenario, "other")
    with pytest.raises(mw.ScenarioError, match=r"has the rate `gcc`: write `rate = .external.`, or set `flow.call.rate=ext"):
        gym.RateControl(scenario.set({"flow.call.rate": "gcc"}), "call")
    with pytest.raises(mw.ScenarioError, match="`every` is 0ns: write a time from 1ms to 60s"):
        gym.RateControl(scenario, "call", every="0ms")
    with pytest.raises(TypeError, match=r"every=0\.1: give text with a unit, like '100ms'"):
        gym.RateControl(scenario, "call", every=cast("Any", 0.1))
    with pytest.raises(ValueError, match="give a rate above 0 and a larger one"):
        gym.RateControl(scenario, "call", least="1mbit", most="1mbit")
    with pytest.raises(ValueError, match="num_envs=0"):
        gym.RateControlVector(scenario, "call", num_envs=0)
    env = gym.RateControl(scenario, "call")
    env.reset(seed=1)
    with pytest.raises(ValueError, match="a rate of 20mbit: give one from 50000 to 10000000 bit/s"):
        env.action("20mbit")
    with pytest.raises(ValueError, match="an action of nan"):
        env.step(np.array([np.nan], dtype=np.float32))
    with pytest.raises(ValueError, match=r"an action of shape \(2,\): give one number from -1 to 1"):
        env.step(np.zeros(2, dtype=np.float32))
    with pytest.raises(ValueError, match=r"a seed of \d+: give one below 2\*\*64"):
        env.reset(seed=1 << 64)
    with pytest.raises(TypeError, match=r"scenario is of type str: give a makeway.Scenario, like mw.Scenario\('call.toml'\)"):
        gym.RateControl(cast("Any", CALL), "call")
    vector = gym.RateControlVector(scenario, "call", num_envs=2)
    vector.reset(seed=1)
    with pytest.raises(ValueError, match=r"an action of shape \(3, 1\): give 2 numbers, one for each environment, from -1 to 1"):
        vector.step(np.zeros((3, 1), dtype=np.float32))
    with pytest.raises(ValueError, match="3 seeds for 2 environments"):
        vector.reset(seed=[1, 2, 3])
    with pytest.raises(IndexError, match="there is no environment 2: give a place from 0 to 1"):
        vector.run(2)
    with pytest.raises(mw.RunError, match="no congestion control `bbr`"):
        bbr = CALL + '[flow.download]\nkind = "bulk"\nfrom = "phone"\nto = "friend"\ncongestion_control = "bbr"\n'
        gym.RateControl(mw.Scenario(bbr), "call")


def test_without_gymnasium_the_error_says_how_to_get_it() -> None:
    code = "import sys; sys.modules['gymnasium'] = None; import makeway as mw; mw.gym"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "ImportError: makeway.gym needs Gymnasium 1.1 or newer, and NumPy: pip install 'makeway[gym]'" in done.stderr


def test_the_example_trains_and_compares(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With too little of everything to learn something."""
    path = ROOT / "crates/python/examples/train_rate_controller.py"
    spec = importlib.util.spec_from_file_location("train_rate_controller", path)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    sys.modules["train_rate_controller"] = example
    spec.loader.exec_module(example)
    out = tmp_path / "policy.json"
    arguments = ["--generations", "2", "--population", "6", "--seconds", "8", "--replications", "1", "--out", str(out)]
    figures = example.main(arguments)
    shown = capsys.readouterr().out
    for controller in ("learned", "tfrc", "ccid2", "abrc", "scream", "gcc"):
        assert f" {controller} " in shown
        assert {of for of, by in figures if by == controller} == set(example.CASES)
    # The policy that it wrote is the policy that it reads.
    kept = tmp_path / "figures.json"
    again = example.main([*arguments[2:], "--policy", str(out), "--json", str(kept)])
    assert again == figures
    read = [((row["case"], row["controller"]), list(row["figures"].values())) for row in json.loads(kept.read_text())]
    assert dict(read) == figures
