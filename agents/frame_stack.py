"""Frame stacking: from each step's newest frame to the last few frames of its episode.

Actors send and store single frames; acting (one row) and learning (a whole unroll) stack
them here with the same function, so both see the same bits.
"""

import math
from collections.abc import Callable

import tensorflow as tf


def stack_frames(
    frames: tf.Tensor,
    first: tf.Tensor,
    earlier: tf.Tensor,
    blank: tf.Tensor,
    see: Callable[[tf.Tensor], tf.Tensor] = tf.identity,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Each row's frame behind the frames before it, joined along the last axis, oldest first.

    What lies before an episode's first frame is blank. Repeating the first frame instead
    would need to know which frame that was, at every row; this only needs to know to which
    episode a frame belongs.

    Args:
        frames: [T, B, ..., C], each row's newest frame.
        first: [T, B] bool, the frame starts an episode: frames before it are of another one.
        earlier: [B, K, ..., C], the K frames before row 0, oldest first.
        blank: [..., C], a frame on which there is nothing to see.
        see: [N, ..., C] → [N, ..., C] of another dtype, what is stacked of frames; each is looked
            at once, before there are K + 1 of it.

    Returns:
        The stacks [T * B, ..., (K + 1) * C], and `earlier` for the row after the last.
    """
    shape, depth = earlier.shape[2:], earlier.shape[1] + 1
    order = range(2, len(earlier.shape))
    each = tf.concat(
        [
            tf.reshape(tf.transpose(earlier, [1, 0, *order]), [-1, *shape]),
            tf.reshape(frames, [-1, *shape]),
            blank[tf.newaxis],
        ],
        axis=0,
    )
    which = _which(first, depth)  # [T, B, depth]
    seen = tf.gather(see(each), tf.reshape(which, [-1, depth]))
    # To join single frames along the last axis would take several times as long.
    pixels, channels = math.prod(shape[:-1]), shape[-1]
    joined = tf.transpose(tf.reshape(seen, [-1, depth, pixels, channels]), [0, 2, 1, 3])
    stacks = tf.reshape(joined, [-1, *shape[:-1], depth * channels])
    return stacks, tf.gather(each, which[-1, :, 1:])


def _which(first: tf.Tensor, depth: int) -> tf.Tensor:
    """[T, B, depth]: which frames each row sees.

    Frames are counted row by row from the oldest of `earlier` on; the last is the blank.
    """
    rows, batch, ages = tf.shape(first)[0], tf.shape(first)[1], depth - 1
    # `earlier` was blanked when it was handed on, so above row 0 everything is visible.
    episode = tf.cumsum(tf.cast(first, tf.int32))
    episode = tf.concat([tf.zeros([ages, batch], tf.int32), episode], axis=0)
    number = tf.reshape(tf.range((ages + rows) * batch), [ages + rows, batch])
    blank = (ages + rows) * batch
    seen_at = tf.range(rows)[:, tf.newaxis] + tf.range(depth)  # [T, depth]
    same = tf.gather(episode, seen_at) == episode[ages:, tf.newaxis]  # [T, depth, B]
    return tf.transpose(tf.where(same, tf.gather(number, seen_at), blank), [0, 2, 1])
