"""Means that follow what is seen: quickly at first, then slowly."""

from collections.abc import Iterable

import tensorflow as tf


def move(
    estimates: Iterable[tuple[tf.Variable, tf.Tensor]],
    count: tf.Tensor,
    seen: tf.Variable,
    slowest: float,
) -> None:
    """Moves each estimate towards the mean of what was summed, where anything was.

    Args:
        estimates: each with the sum of what it is the mean of.
        count: how many values were summed; a scalar, or one for each element of the estimates.
        seen: counts the moves. The first ones are averaged, so that nothing remains of the
            initial values.
        slowest: each move goes at least this fraction of the way.
    """
    present = tf.cast(count > 0, tf.float32)
    seen.assign_add(present)
    step = present * tf.maximum(slowest, 1.0 / tf.maximum(seen, 1.0))
    for estimate, total in estimates:
        estimate.assign_add(step * (tf.math.divide_no_nan(total, count) - estimate))
