"""Rows of an unroll that are not experience: resets, where one episode ends and the next starts."""

import tensorflow as tf

from vtrace.checks import as_float32, check_shape_of


def mask_resets(rewards, discounts, values, is_reset) -> tuple[tf.Tensor, tf.Tensor]:
    """Rewards and discounts with which resets have no effect on learning.

    A reset from row t to row t + 1 gets the value of row t as its reward and a discount of 0.
    Then its error is 0 whatever the weights: the target of row t is its value, the advantage is
    0, and no trace passes from the new episode into the old one, whose last transition therefore
    bootstraps from the value of its final observation.

    Args:
      rewards, discounts, values: `[T, B]`, as for the targets.
      is_reset: `[T, B]` bool, whether the transition from row t is a reset: `first[1:]`.

    Returns:
      `rewards` and `discounts`, both `[T, B]`.
    """
    rewards, discounts, values = as_float32(rewards), as_float32(discounts), as_float32(values)
    is_reset = tf.convert_to_tensor(is_reset, tf.bool)
    for name, tensor in (("rewards", rewards), ("discounts", discounts), ("is_reset", is_reset)):
        check_shape_of(name, tensor, "values", values)
    return tf.where(is_reset, values, rewards), tf.where(is_reset, 0.0, discounts)
