"""Clipping of raw rewards to a scale that suits one set of costs."""

import tensorflow as tf

from user_error import UserError
from vtrace.checks import as_float32


def _abs_one(rewards: tf.Tensor) -> tf.Tensor:
    return tf.clip_by_value(rewards, -1.0, 1.0)


def _soft_asymmetric(rewards: tf.Tensor) -> tf.Tensor:
    squashed = 5.0 * tf.tanh(rewards / 5.0)
    return tf.where(rewards < 0.0, 0.3 * squashed, squashed)


REWARD_CLIPPINGS = {
    "abs_one": _abs_one,
    "soft_asymmetric": _soft_asymmetric,
    "none": tf.identity,
}


def clip_rewards(rewards, how: str) -> tf.Tensor:
    """Rewards of any shape, as float32, clipped in one of these ways.

    `abs_one`: clipped to [-1, 1]. `soft_asymmetric`: squashed smoothly to ±5, and negative ones
    then multiplied by 0.3. `none`: unchanged.
    """
    if how not in REWARD_CLIPPINGS:
        known = ", ".join(sorted(REWARD_CLIPPINGS))
        raise UserError(f"--reward_clipping must be one of {known}, got '{how}'.")
    return REWARD_CLIPPINGS[how](as_float32(rewards))
