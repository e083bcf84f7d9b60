"""Trainings in this process: every way to train, extreme sizes, and what happens on the way."""

import math
import time
from typing import Any

import numpy as np
import pytest

from tests.trainer.launching import newest
from tests.trainer.levels import Continuous, Pictures, Steps, Tens, TwoChoices, level
from tests.trainer.programs.local.conftest import RETURNS, settings
from trainer.acting.acting_agent import ActingAgent
from trainer.learning import compiling
from trainer.machine.graphs import SharedGraph
from trainer.programs import local
from trainer.programs.local import train
from trainer.settings.sizes import fresh_unrolls
from trainer.storage.records import read_metrics


# What trains by the same code as another one, or has a test of its own, is left to --extras.
@pytest.mark.parametrize(
    "changes",
    [
        {"optimizer": "rmsprop", "momentum": 0.5},
        # Adam is the default, and two levels train without PopArt.
        pytest.param({"optimizer": "adam", "popart": False}, marks=pytest.mark.extras),
        {"replay_share": 0.5, "replay_capacity": 16},
        {"replay_share": 0.95, "batch_size": 2},
        {"replay_share": 0.5, "batch_size": 1},
        {"level_name": f"{level(Steps)},{level(Tens)}", "popart": False},
        {"level_name": f"{level(Steps)},{level(Tens)}", "num_actors": 3, "replay_share": 0.3},
        {"level_name": level(TwoChoices), "agent_name": "VectorLSTMAgent"},
        # test_all.py has actions like these, and tests/vtrace/test_rewards.py such rewards.
        pytest.param(
            {"level_name": level(Continuous), "reward_clipping": "soft_asymmetric"},
            marks=pytest.mark.extras,
        ),
        {"level_name": level(Pictures), "width": 36, "height": 36, "num_action_repeats": 2},
        {"num_actors": 1, "envs_per_actor": 1, "batch_size": 1, "unroll_length": 1},
        # Between the one above and batches of 64 from one environment.
        pytest.param(
            {"num_actors": 1, "envs_per_actor": 1, "batch_size": 2, "queue_capacity": 1},
            marks=pytest.mark.extras,
        ),
        {"num_actors": 1, "envs_per_actor": 7, "batch_size": 3, "queue_capacity": 1},
        # Blocks do not fit batches evenly above, either.
        pytest.param(
            {"num_actors": 2, "envs_per_actor": 2, "batch_size": 9}, marks=pytest.mark.extras
        ),
        {"num_actors": 1, "envs_per_actor": 1, "batch_size": 64, "queue_capacity": 4},
        # Three actors are above; in a queue that is never full nothing waits.
        pytest.param(
            {"num_actors": 5, "envs_per_actor": 1, "batch_size": 4, "queue_capacity": 100},
            marks=pytest.mark.extras,
        ),
        {"total_environment_frames": 1},
        {"gradients_clipping": 0.0, "discounting": 0.0, "vtrace_lambda": 0.0, "seed": 2**31 - 1},
    ],
    ids=lambda changes: ",".join(f"{name}={value}" for name, value in changes.items())[:60],
)
def test_it_trains(tmp_path, monkeypatch, changes):
    # Batches in two pieces, as with two cores.
    monkeypatch.setattr(local.cores, "divide", lambda **_: 2)
    chosen = settings(tmp_path, **changes)
    train(chosen)
    counters = newest(tmp_path).counters
    # Only fresh unrolls count, and training stops with the first update that reaches the total.
    # Of each episode's rows one is a reset, which is no step.
    fresh, all_of_them = fresh_unrolls(chosen), chosen.learning.batch_size
    frames = chosen.actors.unroll_length * chosen.level.num_action_repeats
    first, others = all_of_them * frames, fresh * frames  # nothing can be replayed at first
    total = chosen.learning.total_environment_frames
    fewest = 1 + max(0, math.ceil((total - first) / others))
    assert total <= counters["environment_frames"] < total + max(first, others)
    assert fewest <= counters["updates"] <= 2 * fewest
    steps = counters["environment_frames"] / chosen.level.num_action_repeats
    assert steps == counters["agent_steps"]
    assert counters["skipped_updates"] == 0
    rows = read_metrics(tmp_path)
    assert rows[-1]["environment_frames"] == counters["environment_frames"]
    assert rows[-1]["time_left"] == 0  # even if the last update had more than was left
    for name in chosen.level.levels if len(chosen.level.levels) > 1 else []:
        assert rows[-1][f"mean_episode_return/{name}"] == RETURNS[name]
    assert all(np.isfinite(weight).all() for weight in newest(tmp_path).weights.values())


def test_an_atari_game_with_lives_as_episodes(tmp_path):
    train(
        settings(
            tmp_path,
            level_name="BreakoutNoFrameskip-v4",
            episodic_life=True,
            width=36,
            height=36,
            total_environment_frames=800,
        )
    )
    assert newest(tmp_path).counters["agent_steps"] * 4 >= 800


@pytest.mark.parametrize(
    "changes",
    [
        {},
        # Its graphs are those of PPO with one epoch and one minibatch.
        pytest.param({"algorithm": "a2c"}, marks=pytest.mark.extras),
        {"algorithm": "reinforce"},
        {"algorithm": "ppo", "epochs": 2, "minibatches": 2, "piece_length": 1},
        {"algorithm": "ppo", "epochs": 1, "minibatches": 1},
        {"algorithm": "dqn", "replay_steps": 200, "replay_warm_up": 20},
    ],
    ids=lambda changes: ",".join(map(str, changes.values())),
)
def test_no_graph_is_made_that_updates_do_not_call(tmp_path, monkeypatch, changes):
    calls: dict[int, int] = {}

    class Counted(SharedGraph):
        def __init__(self, *arguments: Any):
            super().__init__(*arguments)
            calls[id(self)] = 0

        def __call__(self, *arguments: Any) -> Any:
            calls[id(self)] += 1
            return super().__call__(*arguments)

    monkeypatch.setattr(compiling, "SharedGraph", Counted)
    train(settings(tmp_path, **changes))
    assert calls and min(calls.values()) > 1  # once may be to prepare


def test_actors_get_new_weights_as_often_as_requested(tmp_path, monkeypatch):
    versions = []
    load = ActingAgent.load

    def loaded(agent: ActingAgent, weights: Any, version: int) -> None:
        versions.append(version)
        load(agent, weights, version)

    monkeypatch.setattr(ActingAgent, "load", loaded)
    train(settings(tmp_path, publish_every_updates=6))
    updates = newest(tmp_path).counters["updates"]
    assert updates >= 20
    assert versions == list(range(0, updates + 1, 6))


def test_nobody_plays_before_there_are_weights_of_the_learner(tmp_path, monkeypatch):
    versions = []
    act, load = ActingAgent.act, ActingAgent.load

    def acted(agent: ActingAgent, *given: Any) -> Any:
        versions.append(agent.version)
        return act(agent, *given)

    def loaded(agent: ActingAgent, weights: Any, version: int) -> None:
        if not version:
            time.sleep(0.5)
            assert not versions
        load(agent, weights, version)

    monkeypatch.setattr(ActingAgent, "act", acted)
    monkeypatch.setattr(ActingAgent, "load", loaded)
    train(settings(tmp_path))
    assert versions  # else nobody has played


def test_the_last_checkpoint_is_there_before_what_goes_on_beside_is_ended(tmp_path):
    found: list[int] = []

    class Beside:
        def offer(self, learner: Any, environment_frames: int) -> None:
            pass

        def figures(self) -> dict[str, Any]:
            return {}

        def close(self) -> None:
            found.append(newest(tmp_path).counters["updates"])

    train(settings(tmp_path), companions=lambda *_: [Beside()])
    assert found == [newest(tmp_path).counters["updates"]]
