"""Running means: plain averages at first, slow exponential ones later."""

from collections.abc import Iterable

import tensorflow as tf


def move(
    estimates: Iterable[tuple[tf.Variable, tf.Tensor]],
    count: tf.Tensor,
    seen: tf.Variable,
    slowest: float,
) -> None:
    """Moves each estimate towards the mean of new values; keeps it if there are none.

    Args:
        estimates: pairs of an estimate and the sum of its new values.
        count: the number of values in the sums; a scalar, or one for each element.
        seen: counts the calls. The first ones are averaged, so that nothing remains of the
            initial values.
        slowest: each call moves at least this fraction of the way.
    """
    present = tf.cast(count > 0, tf.float32)
    seen.assign_add(present)
    step = present * tf.maximum(slowest, 1.0 / tf.maximum(seen, 1.0))
    for estimate, total in estimates:
        estimate.assign_add(step * (tf.math.divide_no_nan(total, count) - estimate))
