"""An actor computes step by step what the learner computes for the whole unroll."""

import gymnasium as gym
import numpy as np
import pytest
import tensorflow as tf

import agents

IMAGE = gym.spaces.Box(0, 255, (40, 44, 1), np.uint8)
VECTOR = gym.spaces.Box(-np.inf, np.inf, (5,), np.float32)
ACTIONS = {
    "discrete": gym.spaces.Discrete(4),
    "several": gym.spaces.MultiDiscrete([2, 3]),
    "real": gym.spaces.Box(-2.0, 2.0, (2,), np.float32),
}
ROWS, BATCH = 9, 3


def make(name, actions="discrete", **options):
    space = VECTOR if name.startswith("Vector") else IMAGE
    return agents.make(name, space, ACTIONS[actions], frame_stack=3, seed=5, **options), space


def experience(space, action_space, rows=ROWS, seed=0):
    """observation, reward, action, first of [rows, BATCH], with episodes ending here and there."""
    random = np.random.default_rng(seed)
    if space.dtype == np.uint8:
        observation = random.integers(0, 256, (rows, BATCH, *space.shape)).astype(np.uint8)
    else:
        observation = random.standard_normal((rows, BATCH, *space.shape)).astype(np.float32)
    action_space.seed(seed)
    action = np.stack([[action_space.sample() for _ in range(BATCH)] for _ in range(rows)])
    if np.issubdtype(action.dtype, np.integer):
        action = action.astype(np.int32)
    reward = random.normal(scale=3, size=(rows, BATCH)).astype(np.float32)
    first = np.zeros((rows, BATCH), bool)
    first[0], first[2, 1], first[3, 1], first[4:6, 2], first[8, 0] = True, True, True, True, True
    return tuple(tf.constant(part) for part in (observation, reward, action, first))


def act(agent, rows):
    """One row at a time; returns the outputs [T, B, ...] and the state before each row."""
    step = tf.function(agent.__call__)
    state, outputs, states = agent.initial_state(BATCH), [], []
    for row in range(rows[0].shape[0]):
        states.append(state)
        output, state = step(*[part[row : row + 1] for part in rows], state)
        outputs.append(output)
    joined = tf.nest.map_structure(lambda *parts: tf.concat(parts, 0).numpy(), *outputs)
    return joined, [*states, state]


def assert_close(one, other, tolerance=1e-5):
    for left, right in zip(tf.nest.flatten(one), tf.nest.flatten(other), strict=True):
        np.testing.assert_allclose(left, right, atol=tolerance)


@pytest.mark.parametrize("actions", ACTIONS)
def test_acting_and_learning_compute_the_same_for_every_kind_of_action(actions):
    agent, space = make("VectorLSTMAgent", actions)
    rows = experience(space, ACTIONS[actions])
    acted, states = act(agent, rows)
    learned, end = agent(*rows, agent.initial_state(BATCH))
    assert_close(acted, learned)
    assert_close(states[-1], end)


@pytest.mark.parametrize("name", agents.known_agents())
def test_acting_and_learning_compute_the_same_within_an_episode(name):
    agent, space = make(name)
    rows = experience(space, ACTIONS["discrete"])
    acted, states = act(agent, rows)
    learner = tf.function(agent.__call__)
    # Unrolls of 4 transitions share a row, as the actor sends them.
    for start in (0, 4):
        unroll = [part[start : start + 5] for part in rows]
        learned, end = learner(*unroll, states[start])
        assert_close(tf.nest.map_structure(lambda part: part[start : start + 5], acted), learned)  # noqa: B023
        assert_close(states[start + 5], end)


@pytest.mark.parametrize("name", agents.known_agents())
def test_nothing_of_the_previous_episode_is_seen(name):
    agent, space = make(name)
    observation, reward, action, first = experience(space, ACTIONS["discrete"], rows=9)
    _, states = act(agent, (observation, reward, action, first))
    first = tf.ones([1, BATCH], tf.bool)
    rows = (observation[:1], reward[:1], action[:1], first)
    other = (observation[:1], -reward[:1], (action[:1] + 1) % 4, first)
    assert_close(agent(*rows, states[-1]), agent(*other, agent.initial_state(BATCH)), 0)


@pytest.mark.parametrize("name", agents.known_agents())
def test_last_reward_last_action_and_state_are_seen_within_an_episode(name):
    agent, space = make(name)
    observation, _, action, _ = [part[:1] for part in experience(space, ACTIONS["discrete"])]
    first = tf.zeros([1, BATCH], tf.bool)
    state = agent.initial_state(BATCH)

    def baseline(reward, action, state):
        return agent(observation, tf.fill([1, BATCH], reward), action, first, state)[0].baseline

    usual = baseline(0.0, action, state)
    assert np.all(baseline(1.0, action, state) != usual)
    assert np.all(baseline(0.0, (action + 1) % 4, state) != usual)
    np.testing.assert_array_equal(baseline(1.0, action, state), baseline(50.0, action, state))
    for index, part in enumerate(tf.nest.flatten(state)):
        parts = tf.nest.flatten(state)
        parts[index] = part + tf.ones([], part.dtype)
        assert np.all(baseline(0.0, action, tf.nest.pack_sequence_as(state, parts)) != usual)


def test_xla_computes_the_same():
    agent, space = make("VectorLSTMAgent")
    rows = experience(space, ACTIONS["discrete"])
    state = agent.initial_state(BATCH)
    compiled = tf.function(agent.__call__, jit_compile=True)
    assert_close(agent(*rows, state), compiled(*rows, state))
