"""The backward recursion over time, in log2(T) steps instead of T."""

import tensorflow as tf


def decayed_sums(terms: tf.Tensor, decays: tf.Tensor) -> tf.Tensor:
    """`sums[t] = terms[t] + decays[t] * sums[t + 1]`, with zero past the end.

    Doubling: if each row holds the sum over the `reach` rows that start with it, and the product
    of their decays, then adding the decayed sum of the row `reach` later makes it hold the sum
    over twice as many. Eight rounds are enough for 200 rows. The loop over rounds compiles
    quickly and needs no static T. A loop over 200 rows takes five times as long without XLA;
    unrolled, it takes XLA twelve seconds to compile.

    Args:
      terms: `[T, B, ...]`.
      decays: `[T, B, ...]`, of the same rank, its trailing dimensions broadcast.

    Returns:
      `[T, B, ...]`, the shape of `terms`.
    """
    length = tf.shape(terms)[0]
    rows = tf.range(length + 1)

    def double(reach, sums, products):
        later = tf.minimum(rows + reach, length)
        return (
            2 * reach,
            sums + products * tf.gather(sums, later),
            products * tf.gather(products, later),
        )

    _, sums, _ = tf.while_loop(
        lambda reach, *_: reach < length,
        double,
        (tf.constant(1), _with_zero_row(terms), _with_zero_row(decays)),
    )
    return sums[:-1]


def _with_zero_row(tensor: tf.Tensor) -> tf.Tensor:
    """`[T + 1, ...]`: with a row past the end, which stands for all rows beyond it."""
    return tf.concat([tensor, tf.zeros_like(tensor[:1])], axis=0)
