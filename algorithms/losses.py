"""Means over real transitions, and the sum of the losses of a policy and a baseline."""

from typing import Any

import tensorflow as tf

LARGEST_LOG_RATIO = 20.0  # of an action's probabilities, so that no ratio is infinite


def mean(values: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """The weighted mean of [T, B]; 0 where the weights sum to 0."""
    return tf.math.divide_no_nan(tf.reduce_sum(weights * values), tf.reduce_sum(weights))


def spread(values: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """The weighted standard deviation of [T, B]."""
    return tf.sqrt(mean(tf.square(values - mean(values, weights)), weights))


def clipped_objective(
    ratio: tf.Tensor, advantages: tf.Tensor, limit: float, weights: tf.Tensor
) -> tf.Tensor:
    """Minus PPO's objective: the policy gains nothing from ratios beyond 1 ± limit; [T, B] each."""
    clipped = tf.clip_by_value(ratio, 1.0 - limit, 1.0 + limit)
    return -mean(tf.minimum(ratio * advantages, clipped * advantages), weights)


class Costs:
    """How much baseline and entropy count beside the policy; the entropy's cost may move."""

    def __init__(self, settings: Any):
        first = settings.entropy_cost
        last = getattr(settings, "entropy_cost_end", None)  # not where actors compute gradients
        self._first, self._last = first, first if last is None else last
        self._baseline, self._entropy = settings.baseline_cost, first

    def start(self) -> None:
        """Makes the entropy's cost a variable that graphs read, if it is to change."""
        if self._last != self._first:
            self._entropy = tf.Variable(self._first, trainable=False, dtype=tf.float32)

    def advance(self, run_left: float) -> None:
        """Sets the entropy's cost for what is left of a run, from 1 to 0."""
        if self._last != self._first:
            left = min(1.0, max(0.0, run_left))
            self._entropy.assign(self._last + (self._first - self._last) * left)

    def combined(
        self, policy_loss: tf.Tensor, baseline_loss: tf.Tensor, entropy: tf.Tensor
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """The total loss, and its parts as figures; [] each."""
        total = policy_loss + self._baseline * baseline_loss - self._entropy * entropy
        return total, {
            "policy_gradient_loss": policy_loss,
            "baseline_loss": baseline_loss,
            "entropy": entropy,
        }
