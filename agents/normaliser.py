"""Shows vectors of numbers in units of their bounds, or of their spread.

The spread is for simulators whose numbers have any size. It plays the part for vectors that the
backdrop plays for pictures: the learner estimates it from what actors see, and actors get it along
with the weights.
"""

import gymnasium as gym
import numpy as np
import sonnet as snt
import tensorflow as tf

from agents import running_means

# A batch moves the estimates at least this fraction of the way to its own statistics.
STEP = 1e-4
SMALLEST_SPREAD = 1e-4
FARTHEST = 10.0  # spreads from the mean; what lies beyond is shown there
WIDEST_BOUNDS = 1e4  # larger bounds mean "no bounds"


class Bounds:
    """The bounds of each number of a space."""

    def __init__(self, space: gym.spaces.Box):
        low, high = space.low.astype(np.float64), space.high.astype(np.float64)
        self._bounded = (np.abs(low) < WIDEST_BOUNDS) & (np.abs(high) < WIDEST_BOUNDS)
        self._bounded &= low < high
        low, high = np.where(self._bounded, (low, high), ([-1.0], [1.0]))
        self._centre = ((low + high) / 2).astype(np.float32)
        self._half_range = ((high - low) / 2).astype(np.float32)

    def scaled(self, observation: tf.Tensor) -> tf.Tensor:
        """[..., D] → [..., D] float32, bounds at -1 and 1, the unbounded compressed."""
        x = (tf.cast(observation, tf.float32) - self._centre) / self._half_range
        return tf.where(self._bounded, x, tf.sign(x) * tf.math.log1p(tf.abs(x)))


class Normaliser(snt.Module):
    """Mean and variance of each number. Until the first ``update``, numbers stay as they are."""

    def __init__(self, frame: tf.TensorSpec):
        super().__init__()
        self._mean = tf.Variable(tf.zeros(frame.shape), trainable=False, name="mean")
        self._seen = tf.Variable(0.0, trainable=False, name="seen")
        self._variance = tf.Variable(tf.ones(frame.shape), trainable=False, name="variance")

    def blank(self) -> tf.Tensor:
        """[D]: numbers that are shown as zeros."""
        return self._mean.read_value()

    def subtract_mean(self, frames: tf.Tensor, blank: tf.Tensor) -> tf.Tensor:
        """[N, D]: distances from the mean in units of the spread."""
        return in_spreads(frames - blank, self._variance)

    def sums(self, frames: tf.Tensor, there: tf.Tensor | None = None) -> tf.Tensor:
        """The sums that ``update`` needs of frames [..., D]; batches' sums add up.

        ``there`` is as for ``running_means.played``.
        """
        frames = tf.reshape(frames, [-1, *self._mean.shape])
        frames, count = running_means.played(frames, there, self.blank())
        distances = frames - self._mean
        parts = [tf.reduce_sum(distances, 0), tf.reduce_sum(tf.square(distances), 0)]
        return tf.concat([[count], *parts, count * self._mean], axis=0)

    def nothing(self) -> tf.Tensor:
        """The sums of no frames."""
        return tf.zeros([1 + 3 * self._mean.shape.num_elements()])

    def update(self, sums: tf.Tensor, share: float = 1.0) -> None:
        """Moves the estimates towards those of the frames of this share of a batch."""
        here = running_means.recentred(self._mean, sums[0], *tf.split(sums[1:], 3))
        running_means.move_centred(self._mean, self._variance, self._seen, here, STEP * share)


def in_spreads(distances: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
    """Distances from the mean in units of the spread."""
    shown = distances * tf.math.rsqrt(tf.maximum(variance, SMALLEST_SPREAD**2))
    # What is not finite stays so, and the update is skipped.
    near = tf.clip_by_value(shown, -FARTHEST, FARTHEST)
    return tf.where(tf.math.is_finite(shown), near, shown)
