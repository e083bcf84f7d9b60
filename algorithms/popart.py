"""PopArt: learns the baseline in units of its targets' spread, separately for each level.

Rewards of one game may be a thousand times those of another. The agent's baseline head gives
normalised values n; the value is v = spread · n + mean. When the estimates of mean and spread
change, the head's weights are adjusted so that all values stay the same. Advantages are measured
in units of the same spread, so that the entropy's cost means the same in every game.
"""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from agents import running_means
from agents.layers import Linear

# Each update moves the estimates at least this fraction of the way to the batch's statistics.
STEP = 3e-3
SMALLEST_SPREAD = 1e-2


class PopArt:
    """Mean and spread of each level's targets, and the head that they rescale."""

    def __init__(self, head: Linear, levels: int):
        self._head = head
        self._mean = tf.Variable(tf.zeros([levels]), trainable=False)
        self._variance = tf.Variable(tf.ones([levels]), trainable=False)
        self._seen = tf.Variable(tf.zeros([levels]), trainable=False)
        self.kept = {
            "popart_mean": self._mean,
            "popart_variance": self._variance,
            "popart_seen": self._seen,
        }

    @staticmethod
    def scale(kept: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Spread and mean [L] from a checkpoint's arrays."""
        return np.sqrt(np.maximum(kept["popart_variance"], SMALLEST_SPREAD**2)), kept["popart_mean"]

    def values(self, normalised: tf.Tensor, level: tf.Tensor) -> tf.Tensor:
        """The head's outputs [T, B] → values [T, B]; level [B]."""
        return normalised * self.spread(level) + tf.gather(self._mean, level)

    def normalise(self, values: tf.Tensor, level: tf.Tensor) -> tf.Tensor:
        """Values [T, B] → the head's outputs [T, B] for them."""
        return (values - tf.gather(self._mean, level)) / self.spread(level)

    def spread(self, level: tf.Tensor) -> tf.Tensor:
        """[B]: the standard deviation of the targets of each unroll's level."""
        return tf.gather(self._spreads(), level)

    def sums(self, targets: tf.Tensor, level: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """[3, L]: a batch's sums for ``update``, from targets [T, B]; sums of batches add up.

        They are of distances from the mean: the squares of large targets would leave no digits
        for a small spread.
        """
        of_level = tf.one_hot(level, self._mean.shape[0])  # [B, L]
        distances = targets - tf.gather(self._mean, level)
        powers = (tf.ones_like(distances), distances, tf.square(distances))
        return tf.stack([tf.einsum("tb,bl->l", weights * one, of_level) for one in powers])

    def update(self, sums: tf.Tensor) -> None:
        """Moves the estimates towards the batch's means, and adjusts the head to compensate."""
        mean, spread = self._mean.read_value(), self._spreads()
        running_means.move_centred(
            self._mean, self._variance, self._seen, (sums[0], sums[1], sums[2]), STEP
        )
        self._head.change_units(spread, mean, self._spreads(), self._mean)

    def _spreads(self) -> tf.Tensor:
        return tf.sqrt(tf.maximum(self._variance, SMALLEST_SPREAD**2))
