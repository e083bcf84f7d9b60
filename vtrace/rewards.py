"""How raw rewards are brought to a scale that one set of costs suits."""

import tensorflow as tf

from user_error import UserError
from vtrace.checks import as_float32


def _abs_one(rewards: tf.Tensor) -> tf.Tensor:
    return tf.clip_by_value(rewards, -1.0, 1.0)


def _soft_asymmetric(rewards: tf.Tensor) -> tf.Tensor:
    squeezed = 5.0 * tf.tanh(rewards / 5.0)
    return tf.where(rewards < 0.0, 0.3 * squeezed, squeezed)


REWARD_CLIPPINGS = {
    "abs_one": _abs_one,
    "soft_asymmetric": _soft_asymmetric,
    "none": tf.identity,
}


def clip_rewards(rewards, how: str) -> tf.Tensor:
    """Rewards of any shape, as float32, clipped in one of these ways.

    `abs_one`: held between -1 and 1. `soft_asymmetric`: squeezed smoothly towards ±5, and what
    is negative weakened to 0.3 of that. `none`: as they are.
    """
    if how not in REWARD_CLIPPINGS:
        known = ", ".join(sorted(REWARD_CLIPPINGS))
        raise UserError(f"--reward_clipping must be one of {known}, got '{how}'.")
    return REWARD_CLIPPINGS[how](as_float32(rewards))
