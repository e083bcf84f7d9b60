"""An actor's unrolls are exactly what happened, and the learner's agent agrees with them."""

import dataclasses
from typing import Any

import gymnasium
import numpy as np
import pytest
import tensorflow as tf

import environments
from algorithms.trajectory import Unroll
from environments import EnvironmentStep
from tests.trainer.levels import Continuous, Hiccup, NoNumbers, Steps, Tens, TwoChoices, level
from tests.trainer.training import Parts, parts, small
from trainer import build
from trainer.acting.actor import Actor
from trainer.reporting.metrics import ended_episodes

KINDS = [
    ("CartPole-v1", "VectorAgent"),
    ("CartPole-v1", "VectorLSTMAgent"),
    (level(TwoChoices), "VectorAgent"),
    (level(Continuous), "VectorLSTMAgent"),
    ("PongNoFrameskip-v4", "SimpleConvNetAgent"),
    ("PongNoFrameskip-v4", "ResNetLSTMAgent"),
]
kinds = pytest.mark.parametrize(("level_name", "agent_name"), KINDS)


def made_for(level_name: str, agent_name: str, **changes: Any) -> Parts:
    look = {"width": 40, "height": 40} if "Pong" in level_name else {}
    return parts(small(level_name, agent_name=agent_name, envs_per_actor=2, **look | changes))


@kinds
def test_an_unroll_begins_with_the_last_row_of_the_previous_one(level_name, agent_name):
    actor = made_for(level_name, agent_name, unroll_length=9).actor()
    before = actor.unroll()
    for _ in range(3):
        kept = tf.nest.map_structure(np.copy, before)
        after = actor.unroll()
        for field in ("environment", "action", "recorded"):
            pairs = zip(
                tf.nest.flatten(getattr(before, field)),
                tf.nest.flatten(getattr(after, field)),
                strict=True,
            )
            for one, other in pairs:
                np.testing.assert_array_equal(one[-1], other[0], err_msg=field)
        # The block now belongs to the learner: the actor no longer writes to it.
        for one, other in zip(tf.nest.flatten(kept), tf.nest.flatten(before), strict=True):
            np.testing.assert_array_equal(one, other)
        before = after


@kinds
def test_the_learners_agent_computes_the_recorded_log_probabilities_and_states(
    level_name, agent_name
):
    made = made_for(level_name, agent_name, unroll_length=9)
    actor, agent = made.actor(), made.learner.agent
    state = agent.initial_state(2)
    for _ in range(4):
        played = actor.unroll()
        for wanted, got in zip(
            tf.nest.flatten(state), tf.nest.flatten(played.initial_state), strict=True
        ):
            np.testing.assert_allclose(got, wanted, atol=1e-5)
        rows = played.environment
        arguments = (rows.observation, rows.reward, played.action, rows.first)
        output, _ = agent(*arguments, played.initial_state)
        found = agent.distribution.log_prob(output.policy[:-1], played.action[1:])
        np.testing.assert_allclose(found, played.recorded["log_prob"][1:], atol=2e-5)
        _, state = agent(*(array[:-1] for array in arguments), played.initial_state)


def replayed_episodes(level_name: str, actions: np.ndarray, seed: int) -> list[tuple[float, int]]:
    """Return and length of the plain environment's episodes under these actions."""
    plain: Any = gymnasium.make(level_name)
    plain.reset(seed=seed)
    found, total, length, over = [], 0.0, 0, False
    for action in actions:
        if over:
            plain.reset()
            total, length, over = 0.0, 0, False
            continue
        _, reward, terminated, truncated, _ = plain.step(action)
        total, length, over = total + float(reward), length + 1, terminated or truncated
        if over:
            found.append((total, length))
    return found


@pytest.mark.parametrize("level_name", ["CartPole-v1", "Acrobot-v1"])
def test_episodes_are_those_of_the_plain_environment_under_the_same_actions(level_name):
    made = made_for(level_name, "VectorAgent", unroll_length=50)
    actor = made.actor()
    blocks = [actor.unroll() for _ in range(24)]
    environment = build.actor_environment(made.settings, 0)
    wanted = []
    for column, seed in enumerate(environment._stepped.seeds):  # type: ignore[attr-defined]
        actions = np.concatenate([played.action[1:, column] for played in blocks])
        wanted += replayed_episodes(level_name, actions, seed)
    reported = [
        (float(played.episodes.raw_return[at]), int(played.episodes.length[at]))
        for played in blocks
        for at in zip(*np.nonzero(played.episodes.length), strict=True)
    ]
    assert sorted(reported) == sorted(wanted) and len(reported) >= 4


def test_pongs_episodes_and_rewards_are_those_of_its_environment_under_the_same_actions():
    # Left alone, Pong's episodes take hundreds of steps, so only rows are compared here.
    made = made_for("PongNoFrameskip-v4", "SimpleConvNetAgent", unroll_length=40)
    actor = made.actor()
    blocks = [actor.unroll() for _ in range(3)]
    again = build.actor_environment(made.settings, 0)
    row = again.reset()
    for played in blocks:
        for t in range(40):
            assert_same(row, EnvironmentStep(*(array[t] for array in played.environment)))
            row = again.step(played.action[t + 1])
    assert any(played.environment.reward.any() for played in blocks)


def assert_same(one: EnvironmentStep, other: EnvironmentStep) -> None:
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


def test_each_actor_plays_and_labels_its_own_level():
    made = parts(small(f"{level(Steps)},{level(Tens)}", num_actors=3))
    for index, (label, total, length) in enumerate([(0, 7.0, 7), (1, 30.0, 3), (0, 7.0, 7)]):
        actor = made.actor(index)
        blocks = [actor.unroll() for _ in range(3)]
        assert {int(one) for played in blocks for one in played.level} == {label}
        ended = [played.episodes.length > 0 for played in blocks]
        assert {
            float(r) for b, e in zip(blocks, ended, strict=True) for r in b.episodes.raw_return[e]
        } == {total}
        assert {
            int(n) for b, e in zip(blocks, ended, strict=True) for n in b.episodes.length[e]
        } == {length}


def test_no_two_actors_play_the_same_episodes():
    made = parts(small("CartPole-v1", num_actors=3, envs_per_actor=4))
    starts = [made.actor(index).unroll().environment.observation[0] for index in range(3)]
    assert len({row.tobytes() for row in np.concatenate(starts)}) == 12


def test_the_same_seed_plays_the_same_again():
    one, other = (parts(small("CartPole-v1")).actor().unroll() for _ in range(2))
    for a, b in zip(tf.nest.flatten(one), tf.nest.flatten(other), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("seed", [0, 21_475 * 100_003, (2**31 - 1) * 100_003 + 1023])
def test_every_seed_of_a_run_is_valid(seed):
    made = parts(small(level(Steps)))
    environment = build.actor_environment(made.settings, 0)
    Actor(environment, made.acting, 2, level=0, seed=seed).unroll()


def test_the_weights_version_is_the_mean_of_those_that_chose_the_actions():
    made = parts(small(level(Steps), unroll_length=4))
    made.acting.load(made.learner.weights, 7)
    assert made.actor().unroll().weights_version.tolist() == [7.0] * 3


@pytest.mark.parametrize(("algorithm", "version"), [("impala", 3.0), ("a2c", 1.0)])
def test_in_step_an_unroll_is_of_the_oldest_weights_that_chose_an_action(algorithm, version):
    made = parts(small(level(Steps), algorithm=algorithm, unroll_length=5))
    left = [1, 3, 3, 4, 4]

    def check() -> None:  # before each step
        made.acting.version = left.pop(0)

    environment = build.actor_environment(made.settings, 0)
    played = build.actor(made.settings, environment, made.acting, 0, check).unroll()
    assert played.weights_version.tolist() == [version] * 3


def test_an_unroll_of_a_single_step_of_a_single_environment():
    made = parts(small("CartPole-v1", envs_per_actor=1, unroll_length=1))
    actor = made.actor()
    blocks: list[Unroll] = [actor.unroll() for _ in range(80)]
    assert blocks[0].environment.observation.shape == (2, 1, 4)
    assert sum(int((played.episodes.length > 0).sum()) for played in blocks) >= 1
    lengths = [n for played in blocks for n in played.episodes.length[1:].ravel() if n]
    assert sum(lengths) + len(lengths) <= 80


@pytest.mark.parametrize("agent_name", ["VectorAgent", "VectorLSTMAgent"])
def test_nan_is_forgotten_with_its_episode(agent_name):
    made = parts(small(level(Hiccup), agent_name=agent_name, envs_per_actor=1, unroll_length=8))
    actor = made.actor()
    blocks = [actor.unroll() for _ in range(4)]
    spoiled = [bool(np.isnan(played.recorded["log_prob"][1:]).any()) for played in blocks]
    assert spoiled == [False, True, False, False]


def test_nan_rewards_do_not_stop_an_actor():
    actor = parts(small(level(NoNumbers))).actor()
    blocks = [actor.unroll() for _ in range(9)]
    assert np.isnan(blocks[-1].environment.reward).any()
    assert set(np.unique(blocks[-1].action)) <= {0, 1}


def test_an_exception_that_ends_an_unroll_reaches_its_caller():
    made = parts(small(level(Steps)))
    steps: list[None] = []

    def stop_at_the_fourth_step():
        steps.append(None)
        if len(steps) == 4:
            raise TimeoutError

    environment = environments.make(level(Steps), 1, 0)
    actor = Actor(environment, made.acting, 10, level=0, seed=0, check=stop_at_the_fourth_step)
    with pytest.raises(TimeoutError):
        actor.unroll()


class Faulty(environments.VectorEnvironment):
    """Real environments, of which the second does not run as it should during the second unroll."""

    def __init__(self, length: int) -> None:
        self._env = environments.make(level(Tens), 2, 1)
        measure = environments.Measure("age", "age")
        self.spec = dataclasses.replace(self._env.spec, measures=(measure,))
        self.num_envs, self._length, self._steps = 2, length, 0

    def reset(self):
        return self._env.reset()

    def step(self, actions):
        self._steps += 1
        return self._env.step(actions)

    def figures(self):
        return {"age": np.array([self._steps, np.nan], np.float32)}

    def spoilt(self):
        return np.array([False, self._steps == 2 * self._length])

    def episodes(self):
        return self._env.episodes()

    def render(self, index):
        return None

    def close(self):
        self._env.close()


def test_an_unroll_of_an_environment_that_did_not_run_as_it_should_is_no_experience():
    made = made_for(level(Tens), "VectorAgent", unroll_length=5)
    actor = Actor(Faulty(5), made.acting, 5, level=0, seed=0)
    right, spoilt, after = (actor.unroll() for _ in range(3))
    assert not right.environment.first[1:].all(axis=0).any()
    assert spoilt.environment.first[1:, 1].all() and not spoilt.environment.reward[1:, 1].any()
    assert not spoilt.environment.first[1:, 0].all() and spoilt.environment.reward[1:, 0].any()
    assert not after.environment.first[1:].all(axis=0).any() and after.environment.first[0, 1]
    # Measures go with the rows, and what reports of them leaves out what is not known.
    assert after.recorded["measured.age"][1:, 0].tolist() == [11, 12, 13, 14, 15]
    measured = [row for row in ended_episodes(after) if row[0] < 0]
    assert [row.tolist() for row in measured] == [[-1, 65, 5]]
