"""Advantages in units of their usual size, separately for each level.

PopArt's unit is the spread of returns. Where a policy is good or bad for a whole episode, single
actions differ by a small part of that, and the gradients of the policy drown in noise. The size is
a running mean over updates, so that pieces of a batch and several learners use the same one.
"""

import tensorflow as tf

from agents import running_means

# Each update moves the estimate at least this fraction of the way to the batch's mean.
STEP = 0.02
SMALLEST_SQUARE = 1e-10


class AdvantageScale:
    """The mean square of each level's advantages."""

    def __init__(self, levels: int):
        self._square = tf.Variable(tf.ones([levels]), trainable=False)
        self._seen = tf.Variable(tf.zeros([levels]), trainable=False)
        self.kept = {"advantage_square": self._square, "advantage_seen": self._seen}

    def scaled(self, advantages: tf.Tensor, level: tf.Tensor) -> tf.Tensor:
        """Advantages [T, B] in units of their usual size; level [B]."""
        square = tf.maximum(tf.gather(self._square, level), SMALLEST_SQUARE)
        return advantages * tf.math.rsqrt(square)

    def sums(self, advantages: tf.Tensor, level: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """[2, L]: a batch's sums for ``update``, from advantages as given to ``scaled``."""
        of_level = tf.one_hot(level, self._square.shape[0])  # [B, L]
        powers = (tf.ones_like(advantages), tf.square(advantages))
        return tf.stack([tf.einsum("tb,bl->l", weights * one, of_level) for one in powers])

    def update(self, sums: tf.Tensor) -> None:
        """Moves the estimates towards the batch's means."""
        running_means.move([(self._square, sums[1])], sums[0], self._seen, STEP)
