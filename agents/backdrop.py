"""A level's backdrop: its mean picture, which is subtracted from the frames that agents see.

Most of a game's picture never changes, and walls and scores are brighter than a ball of two
pixels. A network that gets each pixel's difference from its mean, in units of the pixels' usual
deviation, learns from several times fewer frames.
"""

import sonnet as snt
import tensorflow as tf

from agents import running_means

BRIGHTEST = 255.0
# A batch moves the estimates at least this fraction of the way to its own statistics.
STEP = 1e-4
SMALLEST_SPREAD = 1.0  # a grey level


class Backdrop(snt.Module):
    """The mean of a level's frames and the spread around it, as the learner estimates them.

    Gradients do not train it, but it is part of the agent's weights, because actors have to see
    what the learner sees. Until the first ``update``, pixels are fractions of the brightest.
    """

    def __init__(self, frame: tf.TensorSpec, compute_dtype: tf.DType = tf.float32):
        super().__init__()
        self._dtype = frame.dtype
        self._compute_dtype = compute_dtype
        self.mean = tf.Variable(tf.zeros(frame.shape), trainable=False, name="mean")
        self._mean_square = tf.Variable(BRIGHTEST**2, trainable=False, name="mean_square")
        self._seen = tf.Variable(0.0, trainable=False, name="seen")

    def scale(self) -> tf.Tensor:
        """The factor for differences from the mean."""
        variance = self._mean_square - tf.reduce_mean(tf.square(self.mean))
        return tf.math.rsqrt(tf.maximum(variance, SMALLEST_SPREAD**2))

    def blank(self) -> tf.Tensor:
        """[..., C]: a frame with nothing on it."""
        return tf.saturate_cast(tf.round(self.mean), self._dtype)

    def subtract_mean(self, frames: tf.Tensor, blank: tf.Tensor) -> tf.Tensor:
        """[N, ..., C]: frames minus the blank frame, in whole grey levels."""
        # Whole levels, so that blank frames become zeros and bfloat16 holds them exactly.
        return tf.cast(frames, self._compute_dtype) - tf.cast(blank, self._compute_dtype)

    def sums(self, frames: tf.Tensor, there: tf.Tensor | None = None) -> tf.Tensor:
        """The sums that ``update`` needs of frames [..., H, W, C]; batches' sums add up.

        ``there`` is as for ``running_means.played``.
        """
        frames = tf.reshape(tf.cast(frames, tf.float32), [-1, *self.mean.shape])
        frames, count = running_means.played(frames, there, 0.0)
        square = tf.reduce_sum(tf.reduce_mean(tf.square(frames), axis=[1, 2, 3]))
        return tf.concat([[count, square], tf.reshape(tf.reduce_sum(frames, 0), [-1])], axis=0)

    def nothing(self) -> tf.Tensor:
        """The sums of no frames."""
        return tf.zeros([2 + self.mean.shape.num_elements()])

    def update(self, sums: tf.Tensor, share: float = 1.0) -> None:
        """Moves the estimates towards the means of the frames of this share of a batch."""
        count, square, pixels = sums[0], sums[1], tf.reshape(sums[2:], self.mean.shape)
        estimates = ((self.mean, pixels), (self._mean_square, square))
        running_means.move(estimates, count, self._seen, STEP * share)
