"""Each loss is a mean over the steps that count, and has the right gradient."""

import numpy as np
import pytest
import tensorflow as tf

import vtrace

MASK = np.array([[True, False], [True, True], [False, False]])


def random(seed, shape=(3, 2)):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


LOSSES = {
    "policy gradient": (
        lambda weights=None: vtrace.policy_gradient_loss(random(0), random(1), weights),
        -random(0) * random(1),
    ),
    "baseline": (
        lambda weights=None: vtrace.baseline_loss(random(0), random(1), weights),
        0.5 * (random(0) - random(1)) ** 2,
    ),
    "entropy": (lambda weights=None: vtrace.entropy_loss(random(0), weights), -random(0)),
}


@pytest.mark.parametrize(("loss", "per_step"), LOSSES.values(), ids=LOSSES)
class TestEveryLoss:
    def test_is_the_mean_over_all_steps(self, loss, per_step):
        np.testing.assert_allclose(loss(), per_step.mean(), rtol=1e-5)

    def test_is_the_mean_over_the_steps_in_the_mask(self, loss, per_step):
        np.testing.assert_allclose(loss(MASK), per_step[MASK].mean(), rtol=1e-5)

    def test_counts_each_step_by_its_weight(self, loss, per_step):
        weights = np.abs(random(2))
        np.testing.assert_allclose(
            loss(weights), np.average(per_step, weights=weights), rtol=1e-5, atol=1e-6
        )

    def test_is_zero_where_no_step_counts(self, loss, per_step):
        assert loss(np.zeros_like(MASK)) == 0.0

    def test_is_the_same_under_xla(self, loss, per_step):
        compiled = tf.function(lambda: loss(MASK), jit_compile=True)
        np.testing.assert_allclose(compiled(), per_step[MASK].mean(), rtol=1e-5)

    def test_refuses_weights_of_another_shape(self, loss, per_step):
        with pytest.raises(ValueError, match=r"weights must .* \[3, 2\] .* got shape \[3\]"):
            loss(np.ones(3))


def test_the_policy_gradient_makes_good_actions_likelier_and_bad_ones_rarer():
    log_probs, advantages = tf.constant([[-1.0, -1.0]]), tf.constant([[2.0, -3.0]])
    with tf.GradientTape() as tape:
        tape.watch([log_probs, advantages])
        loss = vtrace.policy_gradient_loss(log_probs, advantages)
    by_log_prob, by_advantage = tape.gradient(loss, [log_probs, advantages])
    np.testing.assert_array_equal(by_log_prob, [[-1.0, 1.5]])
    assert by_advantage is None


def test_the_baseline_moves_to_its_target_and_not_the_other_way():
    values, targets = tf.constant([[1.0, 1.0]]), tf.constant([[3.0, 0.0]])
    with tf.GradientTape() as tape:
        tape.watch([values, targets])
        loss = vtrace.baseline_loss(values, targets)
    by_value, by_target = tape.gradient(loss, [values, targets])
    np.testing.assert_array_equal(by_value, [[-1.0, 0.5]])
    assert by_target is None


def test_steps_without_weight_get_no_gradient_even_if_all_are_such():
    for mask in (MASK, np.zeros_like(MASK)):
        entropies = tf.constant(random(0))
        with tf.GradientTape() as tape:
            tape.watch(entropies)
            loss = vtrace.entropy_loss(entropies, mask)
        gradient = tape.gradient(loss, entropies).numpy()
        np.testing.assert_array_equal(gradient[~mask], np.zeros((~mask).sum()))
        np.testing.assert_allclose(gradient[mask], -1 / max(1, mask.sum()), rtol=1e-6)


def test_a_trailing_one_is_refused_instead_of_broadcast():
    with pytest.raises(ValueError, match=r"targets must .* \[3, 2\] .* got shape \[3, 2, 1\]"):
        vtrace.baseline_loss(random(0), random(1, (3, 2, 1)))
    with pytest.raises(ValueError, match=r"advantages must .* \[3, 2\] .* got shape \[2\]"):
        vtrace.policy_gradient_loss(random(0), random(1, (2,)))


def test_losses_of_bfloat16_are_computed_in_float32():
    halves = tf.cast(random(0), tf.bfloat16)
    assert vtrace.policy_gradient_loss(halves, halves).dtype == tf.float32
    assert vtrace.baseline_loss(halves, halves).dtype == tf.float32
    assert vtrace.entropy_loss(halves).dtype == tf.float32
