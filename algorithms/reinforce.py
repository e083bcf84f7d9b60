"""REINFORCE: the policy gradient of whole episodes, with a baseline."""

import tensorflow as tf

from algorithms.a2c import A2C
from algorithms.trajectory import Unroll


class Reinforce(A2C):
    """A2C's losses on the steps of whole episodes, whose returns need no estimate.

    But for episodes that a time limit ends: there the baseline stands for the rest.
    """

    def weights(self, batch: Unroll) -> tf.Tensor:
        """[T, B]: 1 for steps of episodes that begin and end in the batch."""
        first = tf.cast(batch.environment.first, tf.int32)
        begun = tf.cumsum(first)[:-1] > 0
        ended = tf.cumsum(first[1:], reverse=True) > 0
        return super().weights(batch) * tf.cast(begun & ended, tf.float32)
