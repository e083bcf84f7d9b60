"""Distributions of actions against their formulas, and samples against their frequencies."""

import gymnasium as gym
import numpy as np
import pytest
import tensorflow as tf

from agents import distribution_for
from user_error import UserError

MANY = 20_000
LOGITS = np.array([0.5, -1.0, 2.0, 0.0], np.float32)
BOX = gym.spaces.Box(np.array([-2.0, 0.0], np.float32), np.array([2.0, 10.0], np.float32))
SEED = tf.constant([7, 11])


def softmax(logits):
    odds = np.exp(logits - np.max(logits))
    return odds / odds.sum()


def same(parameters, times=MANY):
    return tf.tile(tf.constant(parameters)[tf.newaxis], [times, 1])


def assert_frequencies(samples, probabilities):
    """A chi-squared test that a correct sampler fails for fewer than one seed in 10,000."""
    expected = probabilities * len(samples)
    seen = np.bincount(samples, minlength=len(probabilities))
    assert np.sum((seen - expected) ** 2 / expected) < 30


def test_categorical_formulas():
    distribution = distribution_for(gym.spaces.Discrete(4))
    probabilities = softmax(LOGITS)
    logits = same(LOGITS, 4)
    assert distribution.parameter_count == 4
    np.testing.assert_allclose(
        distribution.log_prob(logits, tf.range(4)), np.log(probabilities), rtol=1e-5
    )
    entropy = -np.sum(probabilities * np.log(probabilities))
    np.testing.assert_allclose(distribution.entropy(logits), [entropy] * 4, rtol=1e-5)
    np.testing.assert_array_equal(distribution.mode(logits), [2] * 4)
    np.testing.assert_array_equal(distribution.encode(tf.constant([1])), [[0, 1, 0, 0]])


def test_categorical_samples_have_the_right_frequencies():
    samples = distribution_for(gym.spaces.Discrete(4)).sample(same(LOGITS), SEED)
    assert samples.dtype == tf.int32
    assert_frequencies(samples.numpy(), softmax(LOGITS))


def test_impossible_actions_are_never_sampled_and_add_no_entropy():
    logits = np.array([0.0, -1e9, 0.0], np.float32)
    distribution = distribution_for(gym.spaces.Discrete(3))
    assert 1 not in distribution.sample(same(logits), SEED).numpy()
    np.testing.assert_allclose(distribution.entropy(tf.constant(logits)), np.log(2), rtol=1e-5)


def test_several_choices_are_independent_categoricals():
    several = distribution_for(gym.spaces.MultiDiscrete([3, 2]))
    parameters = np.array([0.1, 0.2, 0.9, -0.5, 0.5], np.float32)
    parts = softmax(parameters[:3]), softmax(parameters[3:])
    assert several.parameter_count == 5
    actions = tf.constant([[2, 0], [0, 1]])
    np.testing.assert_allclose(
        several.log_prob(same(parameters, 2), actions),
        [np.log(parts[0][2] * parts[1][0]), np.log(parts[0][0] * parts[1][1])],
        rtol=1e-5,
    )
    entropy = -sum(np.sum(part * np.log(part)) for part in parts)
    np.testing.assert_allclose(several.entropy(tf.constant(parameters)), entropy, rtol=1e-5)
    np.testing.assert_array_equal(several.mode(tf.constant(parameters)), [2, 1])
    np.testing.assert_array_equal(several.encode(actions), [[0, 0, 1, 1, 0], [1, 0, 0, 0, 1]])

    samples = several.sample(same(parameters), SEED).numpy()
    assert samples.dtype == np.int32
    assert_frequencies(samples[:, 0] * 2 + samples[:, 1], np.outer(*parts).reshape(-1))


def test_gaussian_formulas_in_the_units_of_the_environment():
    gaussian = distribution_for(BOX)
    parameters = tf.constant([0.5, -0.2, -1.0, 0.3])
    mean, std = np.array([1.0, 4.0]), np.array([2.0, 5.0]) * np.exp([-1.0, 0.3])
    action = np.array([1.5, 11.0], np.float32)  # beyond the bounds: the density is the sample's
    density = np.exp(-(((action - mean) / std) ** 2) / 2) / (std * np.sqrt(2 * np.pi))
    assert gaussian.parameter_count == 4
    np.testing.assert_allclose(
        gaussian.log_prob(parameters, tf.constant(action)), np.log(density).sum(), rtol=1e-5
    )
    entropy = np.sum(np.log(std * np.sqrt(2 * np.pi * np.e)))
    np.testing.assert_allclose(gaussian.entropy(parameters), entropy, rtol=1e-5)
    np.testing.assert_allclose(gaussian.mode(parameters), mean, rtol=1e-6)
    np.testing.assert_allclose(gaussian.encode(tf.constant(action)), [0.75, 1.0])


def test_gaussian_samples_have_their_mean_and_spread():
    gaussian = distribution_for(BOX)
    samples = gaussian.sample(same(np.array([0.5, -0.2, -1.0, 0.3], np.float32)), SEED)
    std = np.array([2.0, 5.0]) * np.exp([-1.0, 0.3])
    assert samples.shape == [MANY, 2] and samples.dtype == tf.float32
    np.testing.assert_allclose(np.mean(samples, 0), [1.0, 4.0], atol=4 * std.max() / MANY**0.5)
    np.testing.assert_allclose(np.std(samples, 0), std, rtol=0.03)


def test_unbounded_boxes_of_any_shape_have_their_own_units():
    space = gym.spaces.Box(-np.inf, np.inf, (2, 3), np.float32)
    gaussian = distribution_for(space)
    parameters = tf.zeros([4, 5, 12])
    samples = gaussian.sample(parameters, SEED)
    assert samples.shape == [4, 5, 2, 3]
    assert gaussian.encode(samples).shape == [4, 5, 6]
    np.testing.assert_allclose(
        gaussian.log_prob(parameters, samples),
        -np.sum(samples.numpy() ** 2, (2, 3)) / 2 - 3 * np.log(2 * np.pi),
        rtol=1e-4,
    )


@pytest.mark.parametrize(
    "space", [gym.spaces.Discrete(5), gym.spaces.MultiDiscrete([3, 4]), BOX], ids=str
)
def test_the_same_seed_gives_the_same_actions(space):
    distribution = distribution_for(space)
    sample = tf.function(distribution.sample)
    parameters = tf.zeros([100, distribution.parameter_count])
    once, again = sample(parameters, SEED), sample(parameters, SEED)
    np.testing.assert_array_equal(once, again)
    assert np.any(once != sample(parameters, SEED + 1))


def test_gradients_of_log_prob_and_entropy_are_finite():
    for space in gym.spaces.Discrete(3), gym.spaces.MultiDiscrete([2, 2]), BOX:
        distribution = distribution_for(space)
        parameters = tf.Variable(tf.ones([6, distribution.parameter_count]) * 0.3)
        with tf.GradientTape() as tape:
            actions = distribution.sample(parameters, SEED)
            loss = tf.reduce_sum(distribution.log_prob(parameters, actions))
            loss += tf.reduce_sum(distribution.entropy(parameters))
        gradient = tape.gradient(loss, parameters)
        assert np.all(np.isfinite(gradient)) and np.any(gradient != 0)


def test_a_temperature_sharpens_or_flattens():
    logits = tf.constant([[0.0, 1.0, 2.0]])
    cold = distribution_for(gym.spaces.Discrete(3)).tempered(logits, 0.5)
    np.testing.assert_allclose(tf.nn.softmax(cold), tf.nn.softmax(2 * logits), rtol=1e-6)
    several = distribution_for(gym.spaces.MultiDiscrete([2, 1])).tempered(logits, 2.0)
    np.testing.assert_allclose(several, logits / 2)
    gaussian = distribution_for(gym.spaces.Box(-2.0, 2.0, (1,), np.float32))
    parameters = tf.tile([[0.3, -1.0]], [4000, 1])
    samples = gaussian.sample(gaussian.tempered(parameters, 0.5), tf.constant([1, 2]))
    assert float(tf.math.reduce_std(samples)) == pytest.approx(0.5 * np.exp(-1.0) * 2, rel=0.05)
    assert float(tf.reduce_mean(samples)) == pytest.approx(0.6, abs=0.05)


@pytest.mark.parametrize(("temperature", "deviation"), [(100.0, 2.7), (0.001, 0.0067)])
def test_deviations_stay_in_their_range_at_any_temperature(temperature, deviation):
    gaussian = distribution_for(gym.spaces.Box(-2.0, 2.0, (1,), np.float32))
    samples = gaussian.sample(gaussian.tempered(tf.zeros([MANY, 2]), temperature), SEED)
    half_range = 2.0
    assert float(tf.math.reduce_std(samples)) == pytest.approx(deviation * half_range, rel=0.03)


@pytest.mark.parametrize(
    "space", [gym.spaces.Text(3), gym.spaces.Box(0, 9, (2,), np.int32)], ids=str
)
def test_an_error_names_an_unsupported_space(space):
    with pytest.raises(UserError, match="agents support Discrete"):
        distribution_for(space)


def test_bounds_as_far_as_floats_go_are_none():
    most = np.finfo(np.float32).max
    far, none = (
        distribution_for(gym.spaces.Box(-bound, bound, (2,), np.float32))
        for bound in (most, np.inf)
    )
    parameters = np.array([0.5, -1.0, 0.0, 0.3], np.float32)
    action = far.sample(parameters, [1, 2])
    np.testing.assert_array_equal(action, none.sample(parameters, [1, 2]))
    assert np.isfinite(far.log_prob(parameters, action))
