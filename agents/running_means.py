"""Running means: plain averages at first, slow exponential ones later."""

from collections.abc import Iterable

import tensorflow as tf

SAME = 1e-6  # means that are nearer to each other than this share of them


def played(
    frames: tf.Tensor, there: tf.Tensor | None, blank: tf.Tensor | float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Frames [N, ...], ``blank`` in place of those that nobody plays, and the number of others.

    ``there`` [N] says which are played; None: all of them.
    """
    if there is None:
        return frames, tf.cast(tf.shape(frames)[0], tf.float32)
    mask = tf.reshape(there, [-1, *[1] * (frames.shape.rank - 1)])
    return tf.where(mask, frames, blank), tf.reduce_sum(tf.cast(there, tf.float32))


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
    step = next_step(count, seen, slowest)
    for estimate, total in estimates:
        estimate.assign_add(step * (tf.math.divide_no_nan(total, count) - estimate))


def move_centred(
    mean: tf.Variable,
    variance: tf.Variable,
    seen: tf.Variable,
    sums: tuple[tf.Tensor, tf.Tensor, tf.Tensor],
    slowest: float,
) -> None:
    """Moves estimates of mean and variance towards those of new values.

    ``sums`` are the number of new values, the sum of their distances from the mean, and the sum of
    the squares of those: squares of the values themselves would leave no digits for a variance
    that is small beside the mean. ``seen`` and ``slowest`` are as for ``move``.
    """
    count, first, second = sums
    step = next_step(count, seen, slowest)
    # The first values' distances are from 0, so the second ones replace their variance.
    variance_step = tf.where(seen <= 2.0, tf.sign(step), step)
    shift = step * tf.math.divide_no_nan(first, count)
    old = variance + tf.square(shift)
    new = tf.math.divide_no_nan(second - 2.0 * shift * first, count) + tf.square(shift)
    mean.assign_add(shift)
    variance.assign((1.0 - variance_step) * old + variance_step * new)


def recentred(
    mean: tf.Tensor, count: tf.Tensor, first: tf.Tensor, second: tf.Tensor, references: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Sums for ``move_centred`` out of those of distances from references, added up, too.

    Another process may have measured from an older mean than this one has by now.
    """
    apart = tf.math.divide_no_nan(references, count) - mean
    # Of one and the same mean, only rounding is left.
    apart = tf.where(tf.abs(apart) > SAME * tf.abs(mean), apart, 0.0) * tf.sign(count)
    return (
        count,
        first + count * apart,
        second + 2.0 * apart * first + count * tf.square(apart),
    )


def next_step(count: tf.Tensor, seen: tf.Variable, slowest: float) -> tf.Tensor:
    """The fraction of the way that estimates are to move, 0 without new values; see ``move``."""
    present = tf.cast(count > 0, tf.float32)
    seen.assign_add(present)
    return present * tf.maximum(slowest, 1.0 / tf.maximum(seen, 1.0))
