"""Shows vectors of several kinds of bodies in units of the spread of each kind's own numbers."""

import sonnet as snt
import tensorflow as tf

from agents import running_means
from agents.normaliser import STEP, in_spreads


class KindsNormaliser(snt.Module):
    """A ``Normaliser`` for each kind; the last number of a frame [D + 1] is that of its kind."""

    def __init__(self, frame: tf.TensorSpec, count: int):
        """``count`` is the number of kinds."""
        super().__init__()
        size = frame.shape[0] - 1
        self._mean = tf.Variable(tf.zeros([count, size]), trainable=False, name="mean")
        self._seen = tf.Variable(tf.zeros([count, 1]), trainable=False, name="seen")
        self._variance = tf.Variable(tf.ones([count, size]), trainable=False, name="variance")

    def blank(self) -> tf.Tensor:
        """[D + 1]: a frame of no kind, which is shown as zeros."""
        return tf.concat([tf.zeros(self._mean.shape[1:]), [-1.0]], axis=0)

    def subtract_mean(self, frames: tf.Tensor, blank: tf.Tensor) -> tf.Tensor:
        """[N, D + 1]: distances from the mean of the kind in units of its spread."""
        marks = self._marks(frames)
        distances = frames[:, :-1] - tf.matmul(marks, self._mean)
        shown = in_spreads(distances, tf.matmul(marks, self._variance))
        return tf.concat([shown, frames[:, -1:]], axis=-1)

    def sums(self, frames: tf.Tensor, there: tf.Tensor | None = None) -> tf.Tensor:
        """The sums that ``update`` needs of frames [..., D + 1]; batches' sums add up.

        ``there`` is as for ``running_means.played``.
        """
        frames = tf.reshape(frames, [-1, self._mean.shape[1] + 1])
        frames, _ = running_means.played(frames, there, self.blank())
        marks = self._marks(frames)
        distances = frames[:, :-1] - tf.matmul(marks, self._mean)
        powers = (tf.ones_like(frames[:, -1:]), distances, tf.square(distances))
        parts = [tf.matmul(marks, power, transpose_a=True) for power in powers]
        return tf.concat([*parts, parts[0] * self._mean], axis=-1)

    def nothing(self) -> tf.Tensor:
        """The sums of no frames."""
        return tf.zeros([self._mean.shape[0], 1 + 3 * self._mean.shape[1]])

    def update(self, sums: tf.Tensor, share: float = 1.0) -> None:
        """Moves the estimates of each kind towards those of its frames in this share of a batch."""
        count, *totals = tf.split(sums, [1, *3 * [self._mean.shape[1]]], axis=-1)
        here = running_means.recentred(self._mean, count, *totals)
        running_means.move_centred(self._mean, self._variance, self._seen, here, STEP * share)

    def _marks(self, frames: tf.Tensor) -> tf.Tensor:
        return tf.one_hot(tf.cast(frames[:, -1], tf.int32), self._mean.shape[0])
