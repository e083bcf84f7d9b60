"""Spaces: whatever an agent says is an action of the environment."""

from typing import Any

import gymnasium
import hypothesis
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import strategies as st

from environments.spaces import agent_actions, is_image, numbers, shown, with_plain_observations
from environments.view import View

TRUTH: Any = np.bool_  # which Gymnasium's types do not have
ACTION_SPACES = st.one_of(
    st.builds(spaces.Discrete, st.integers(1, 9), start=st.integers(-5, 5)),
    st.builds(spaces.Discrete, st.integers(1, 9), dtype=st.just(np.uint8)),
    st.builds(lambda n: spaces.MultiDiscrete([n, 9], dtype=np.uint8), st.integers(1, 9)),
    st.lists(st.integers(1, 5), min_size=1, max_size=4).map(spaces.MultiDiscrete),
    st.builds(lambda n: spaces.MultiDiscrete(np.full((2, n), 3)), st.integers(1, 3)),
    st.integers(1, 5).map(spaces.MultiBinary),
    st.builds(
        lambda low, size, shape, kind: spaces.Box(low, low + size, shape, kind),
        st.floats(-5, 5, width=16),
        st.floats(0, 5, width=16),
        st.sampled_from([(1,), (3,), (2, 2)]),
        st.sampled_from([np.float32, np.float64]),
    ),
)


@hypothesis.given(space=ACTION_SPACES, seed=st.integers(0, 99))
@hypothesis.settings(max_examples=60)
def test_every_agent_action_is_one_of_the_environment(space, seed):
    agent_space, environment_actions = agent_actions(space, "Any-v0")
    agent_space.seed(seed)
    batch = np.array([agent_space.sample() for _ in range(3)])
    for action in environment_actions(batch):
        assert space.contains(action)


def test_continuous_actions_are_clipped_to_the_bounds():
    _, environment_actions = agent_actions(spaces.Box(-2, 1, (2,)), "Any-v0")
    far = np.array([[-9, 0.5], [3, -0.5]], np.float32)
    assert environment_actions(far).tolist() == [[-2, 0.5], [1, -0.5]]


@pytest.mark.parametrize(
    "space",
    [
        spaces.Dict(turn=spaces.Discrete(2)),
        spaces.Tuple([spaces.Discrete(2)]),
        spaces.Box(0, 9, (2,), np.int64),
        spaces.Box(0, 1, (0,)),
    ],
)
def test_actions_that_no_agent_can_give_are_refused(space, one_line):
    one_line(lambda: agent_actions(space, "Any-v0"), "Any-v0 takes actions", str(space))


class Still(gymnasium.Env):
    """An environment that only shows samples of a space."""

    def __init__(self, space):
        self.observation_space = space
        self.observation_space.seed(0)

    def reset(self, *, seed=None, options=None):
        return self.observation_space.sample(), {}


@pytest.mark.parametrize(
    ("space", "shape", "kind"),
    [
        (spaces.Box(-1, 1, (5,), np.float64), (5,), np.float32),
        (spaces.Box(-1, 1, (5, 2), np.float64), (10,), np.float32),
        (spaces.Box(0, 255, (7,), np.uint8), (7,), np.float32),
        (spaces.Box(0, 255, (9, 7, 3), np.uint8), (12, 10, 3), np.uint8),
        (spaces.Box(0, 255, (9, 7), np.uint8), (12, 10, 1), np.uint8),
        (spaces.Box(0, 1, (9, 7, 2), np.float64), (12, 10, 2), np.float32),
        (spaces.Box(0, 255, (17, 13, 6), np.uint8), (12, 10, 6), np.uint8),
        (spaces.Box(0, 255, (84, 84, 9), np.uint8), (12, 10, 9), np.uint8),
        (spaces.Box(0, 1, (4, 4, 16), np.float32), (12, 10, 16), np.float32),  # a board
        (spaces.Box(0, 1, (10, 10, 4), TRUTH), (12, 10, 4), np.float32),  # as in MinAtar
        (spaces.Box(0, 1, (5, 2), TRUTH), (10,), np.float32),
        (spaces.Discrete(4, start=2), (4,), np.float32),
        (spaces.MultiDiscrete([2, 3]), (5,), np.float32),
        (spaces.MultiBinary(3), (3,), np.float32),
        (spaces.Dict(a=spaces.Discrete(2), b=spaces.Box(0, 1, (3,))), (5,), np.float32),
        (spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)]), (5,), np.float32),
    ],
)
def test_observations_become_an_image_or_a_vector(space, shape, kind):
    env = with_plain_observations(Still(space), "Any-v0", View(width=10, height=12))
    plain = numbers(env.observation_space)
    assert (plain.shape, plain.dtype) == (shape, kind)
    assert is_image(env.observation_space) == (len(shape) == 3)
    assert np.asarray(env.reset()[0]).shape == shape


@pytest.mark.parametrize("channels", [3, 4, 5, 9])
def test_each_channel_of_a_picture_is_shrunk_as_it_would_be_alone(channels):
    picture = np.random.default_rng(0).integers(256, size=(17, 13, channels), dtype=np.uint8)
    alone = [shown(picture[:, :, one], None, (12, 10, 1)) for one in range(channels)]
    small = shown(picture, None, (12, 10, channels))
    np.testing.assert_allclose(small.astype(int), np.concatenate(alone, axis=2), atol=1)


def test_observations_that_no_agent_can_read_are_refused(one_line):
    space = spaces.Sequence(spaces.Discrete(2))
    one_line(
        lambda: with_plain_observations(Still(space), "Any-v0", View()),
        "Any-v0 observes",
        "Sequence",
    )


@pytest.mark.parametrize(
    "space",
    [
        *(spaces.Dict({}), spaces.Tuple([]), spaces.Dict(a=spaces.Dict())),
        *(spaces.Box(0, 1, (0,)), spaces.Box(0, 255, (9, 0, 3), np.uint8)),
    ],
)
def test_observations_of_nothing_are_refused(space, one_line):
    told = f"Any-v0 observes {space}, in which there is nothing"
    one_line(lambda: with_plain_observations(Still(space), "Any-v0", View()), told)


@pytest.mark.parametrize(
    ("shape", "kind"), [((4, 84, 84), np.uint8), ((3, 64, 64), np.uint8), ((1, 9, 7), np.float32)]
)
def test_pictures_with_channels_first_are_refused(shape, kind, one_line):
    env = Still(spaces.Box(0, 1, shape, kind))
    told = f"Any-v0 observes pictures of shape {shape}, expected [height, width, channels]"
    one_line(lambda: with_plain_observations(env, "Any-v0", View()), told, "--wrappers")
