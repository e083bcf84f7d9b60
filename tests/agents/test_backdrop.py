"""Agents of pictures see differences from the mean picture, in units of their spread."""

import gymnasium as gym
import numpy as np
import pytest
import tensorflow as tf

import agents
from agents.backdrop import SMALLEST_SPREAD, STEP, Backdrop
from agents.kinds.normaliser import KindsNormaliser
from agents.normaliser import Normaliser

FRAME = tf.TensorSpec([6, 5, 2], tf.uint8)
PICTURES = gym.spaces.Box(0, 255, (40, 44, 1), np.uint8)
SHOWN = ["SimpleConvNetAgent", "ResNetAgent", "ResNetLSTMAgent", "StarterLSTMAgent"]


def frames(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, 2, *FRAME.shape)).astype(np.uint8)


def estimates(backdrop: Backdrop) -> tuple[np.ndarray, float]:
    return backdrop.mean.numpy(), 1 / float(backdrop.scale())


def backdrop_of(agent: agents.Agent) -> Backdrop:
    assert agent.backdrop is not None
    return agent.backdrop


def test_before_the_first_update_pixels_are_fractions_of_255():
    mean, spread = estimates(Backdrop(FRAME))
    assert spread == pytest.approx(255) and not mean.any()


def test_estimates_become_the_mean_picture_and_the_spread_around_it():
    backdrop = Backdrop(FRAME)
    batches = [frames(4, seed) for seed in range(5)]
    for batch in batches:
        backdrop.update(backdrop.sums(batch))
    seen = np.concatenate(batches).reshape(-1, *FRAME.shape).astype(np.float64)
    mean, spread = estimates(backdrop)
    np.testing.assert_allclose(mean, seen.mean(0), rtol=1e-5)
    assert spread == pytest.approx(np.sqrt(seen.var(0).mean()), rel=1e-4)


def test_sums_of_several_learners_add_up_and_one_without_a_batch_adds_nothing():
    together, apart = Backdrop(FRAME), Backdrop(FRAME)
    few, more = frames(1, 1), frames(3, 2)
    together.update(together.sums(np.concatenate([few, more])))
    apart.update(apart.sums(few) + apart.sums(more) + apart.nothing())
    np.testing.assert_allclose(estimates(together)[0], estimates(apart)[0], rtol=1e-5)
    assert estimates(together)[1] == pytest.approx(estimates(apart)[1], rel=1e-5)


@pytest.mark.parametrize(
    ("known", "shape"),
    [
        (Backdrop(FRAME), FRAME.shape),
        (Normaliser(tf.TensorSpec([3], tf.float32)), [3]),
        (KindsNormaliser(tf.TensorSpec([3], tf.float32), 2), [3]),
    ],
    ids=["pictures", "numbers", "kinds"],
)
def test_frames_that_nobody_plays_are_not_counted(known, shape):
    seen = np.random.default_rng(0).uniform(0, 2, [5, *shape]).astype(np.float32)
    known.update(known.sums(seen))
    there = np.array([True, False, True, True, False])
    played = known.sums(seen[there])
    seen[1] = np.nan
    np.testing.assert_allclose(known.sums(seen, there), played, rtol=1e-5, atol=1e-5)
    nobody = np.zeros(5, bool)
    before = [variable.numpy() for variable in known.variables]
    known.update(known.sums(seen, nobody))
    for old, new in zip(before, known.variables, strict=True):
        np.testing.assert_array_equal(old, new)


def test_nothing_changes_if_no_learner_has_a_batch():
    backdrop = Backdrop(FRAME)
    backdrop.update(backdrop.sums(frames(4)))
    before = [variable.numpy() for variable in backdrop.variables]
    backdrop.update(backdrop.nothing())
    for old, new in zip(before, backdrop.variables, strict=True):
        np.testing.assert_array_equal(old, new)


def test_estimates_follow_a_level_that_changes():
    backdrop = Backdrop(FRAME)
    dark, bright = np.zeros([1, *FRAME.shape], np.uint8), np.full([1, *FRAME.shape], 200, np.uint8)
    for _ in range(3):
        backdrop.update(backdrop.sums(dark))
    assert estimates(backdrop)[1] == pytest.approx(SMALLEST_SPREAD)  # no division by zero

    @tf.function
    def updates() -> None:
        for _ in tf.range(int(4 / STEP)):
            backdrop.update(backdrop.sums(bright))

    updates()
    assert estimates(backdrop)[0].mean() == pytest.approx(200, rel=0.05)


@pytest.mark.parametrize("name", SHOWN)
def test_agents_do_not_see_brightness_and_contrast(name):
    agent = agents.make(name, PICTURES, gym.spaces.Discrete(3), frame_stack=2, seed=1)
    random = np.random.default_rng(0)
    backdrop = backdrop_of(agent)
    # Of six pictures, so that their mean is a picture as well, and no blank frame is rounded.
    pictures = (6 * random.integers(0, 16, (3, 2, *PICTURES.shape))).astype(np.uint8)

    def seen(pictures: np.ndarray) -> np.ndarray:
        rest = np.zeros([3, 2], np.float32)
        for variable, value in zip(backdrop.variables, untouched, strict=True):
            variable.assign(value)
        backdrop.update(backdrop.sums(agent.prepare(pictures)))
        first = np.array([[True, True], [False, False], [False, True]])
        output, _ = agent(pictures, rest, rest.astype(np.int32), first, agent.initial_state(2))
        return output.baseline.numpy()

    untouched = [variable.numpy() for variable in backdrop.variables]
    usual = seen(pictures)
    assert np.std(usual) > 0.01
    np.testing.assert_allclose(seen(pictures + 50), usual, atol=2e-3)
    np.testing.assert_allclose(seen(pictures * 2), usual, atol=2e-3)


@pytest.mark.parametrize("name", SHOWN)
def test_constant_scenery_is_not_seen(name):
    agent = agents.make(name, PICTURES, gym.spaces.Discrete(3), frame_stack=3, seed=1)
    scenery = np.random.default_rng(0).integers(0, 256, PICTURES.shape).astype(np.uint8)
    backdrop = backdrop_of(agent)
    backdrop.update(backdrop.sums(agent.prepare(scenery[None, None])))
    rest = np.zeros([1, 1], np.float32)
    # Nor are the blank frames before an episode.
    output, _ = agent(
        scenery[None, None], rest, rest.astype(np.int32), rest < 1, agent.initial_state(1)
    )
    np.testing.assert_allclose(output.baseline, 0.0, atol=1e-3)
    np.testing.assert_allclose(output.policy, 0.0, atol=1e-4)


def test_agents_of_numbers_have_no_backdrop():
    numbers = gym.spaces.Box(-1.0, 1.0, (4,), np.float32)
    agent = agents.make("VectorAgent", numbers, gym.spaces.Discrete(2))
    assert agent.backdrop is None
    assert len(agent.variables) == len(agent.trainable_variables)
