"""The three parts of the actor-critic loss, each a weighted mean over steps.

All take `[T, B]` tensors and optional `weights` of the same shape, numbers or a bool mask. If the
weights sum to 0, the loss is 0. Each is a scalar to be minimised; the caller applies the costs and
adds them up.
"""

import tensorflow as tf

from vtrace.checks import as_float32, check_shape_of


def policy_gradient_loss(action_log_probs, advantages, weights=None) -> tf.Tensor:
    """Minus the mean of log-probability times advantage; the advantage carries no gradient.

    Args:
      action_log_probs: `[T, B]`, of the actions taken, under the policy that is learned.
      advantages: `[T, B]`.
      weights: `[T, B]` or None, the weight of each step.
    """
    action_log_probs, advantages = as_float32(action_log_probs), as_float32(advantages)
    check_shape_of("advantages", advantages, "action_log_probs", action_log_probs)
    return -_mean(action_log_probs * tf.stop_gradient(advantages), weights)


def baseline_loss(values, targets, weights=None) -> tf.Tensor:
    """Half the mean squared error of the values; the target carries no gradient.

    Args:
      values: `[T, B]`, the baseline's predictions.
      targets: `[T, B]`, what they should be.
      weights: `[T, B]` or None, the weight of each step.
    """
    values, targets = as_float32(values), as_float32(targets)
    check_shape_of("targets", targets, "values", values)
    return 0.5 * _mean(tf.square(tf.stop_gradient(targets) - values), weights)


def entropy_loss(entropies, weights=None) -> tf.Tensor:
    """Minus the mean entropy: minimising it makes the policy explore more.

    Args:
      entropies: `[T, B]`, of the policy that is learned, at each step.
      weights: `[T, B]` or None, the weight of each step.
    """
    return -_mean(as_float32(entropies), weights)


def _mean(steps: tf.Tensor, weights) -> tf.Tensor:
    """The weighted mean over all steps, a scalar; 0 where the weights sum to 0."""
    if weights is None:
        return tf.reduce_mean(steps)
    weights = as_float32(weights)
    check_shape_of("weights", weights, "the steps", steps)
    return tf.math.divide_no_nan(tf.reduce_sum(weights * steps), tf.reduce_sum(weights))
