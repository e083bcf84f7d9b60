"""Frame stacking: from each step's newest frame to the last few frames of its episode.

Actors send and store single frames; acting (one row) and learning (a whole unroll) stack
them here with the same function, so both see the same bits.
"""

import math
from collections.abc import Callable, Sequence

import tensorflow as tf

WORD = 4  # bytes of an int32


def beginnings(first: tf.Tensor, reward: tf.Tensor) -> tf.Tensor:
    """Where no earlier frame counts, bool like ``first``.

    A reward of nan says that a `first` row goes on from the one before, which shows what was seen
    before anything was played.
    """
    return tf.logical_and(first, tf.logical_not(tf.math.is_nan(reward)))


def stack_frames(
    frames: tf.Tensor,
    first: tf.Tensor,
    earlier: tf.Tensor,
    blank: tf.Tensor,
    see: Callable[[tf.Tensor], tf.Tensor] = tf.identity,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Each row's frame and those before it, joined along the last axis, oldest first.

    Frames before an episode's first are blank. Repeating the first frame instead would require
    knowing at every row which one that was; this requires only knowing which episode a frame
    belongs to.

    Args:
        frames: [T, B, ..., C], each row's newest frame.
        first: [T, B] bool, the frame starts an episode: frames before it are of another one.
        earlier: [B, K, ..., C], the K frames before row 0, oldest first.
        blank: [..., C], a frame with nothing on it.
        see: [N, ..., C] → [N, ..., C] of any dtype, what is stacked instead of the frames. It is
            applied once to each frame, before there are K + 1 copies of it.

    Returns:
        The stacks [T * B, ..., (K + 1) * C], and `earlier` for the row after the last.
    """
    shape, depth = earlier.shape[2:], earlier.shape[1] + 1
    each = _row_by_row(frames, earlier, blank)
    indices = _frame_indices(first, depth)  # [T, B, depth]
    seen = gather(see(each), tf.reshape(indices, [-1, depth]))
    # Joining single frames along the last axis would take several times as long.
    pixels, channels = math.prod(shape[:-1]), shape[-1]
    joined = tf.transpose(tf.reshape(seen, [-1, depth, pixels, channels]), [0, 2, 1, 3])
    stacks = tf.reshape(joined, [-1, *shape[:-1], depth * channels])
    return stacks, gather(each, indices[-1, :, 1:])


def earlier_frames(
    frames: tf.Tensor,
    first: tf.Tensor,
    earlier: tf.Tensor,
    blank: tf.Tensor,
    starts: Sequence[int],
) -> tf.Tensor:
    """``earlier`` for each of some rows of an unroll, joined: [starts * B, K, ..., C].

    The other arguments are as above. Row 0 can be the first of the rows only.
    """
    each = _row_by_row(frames, earlier, blank)
    indices = _frame_indices(first, earlier.shape[1] + 1)[:, :, 1:]
    later = [start - 1 for start in starts if start]
    found = gather(each, tf.reshape(tf.gather(indices, later), [-1, earlier.shape[1]]))
    return tf.concat([earlier, found], axis=0) if starts[0] == 0 else found


def gather(array: tf.Tensor, indices: tf.Tensor, axis: int = 0) -> tf.Tensor:
    """``tf.gather`` that works for bytes on a GPU, too: there TensorFlow gathers only words."""
    if array.dtype != tf.uint8:
        return tf.gather(array, indices, axis=axis)
    leading, trailing = tf.shape(array)[: axis + 1], array.shape[axis + 1 :]
    size = math.prod(trailing)
    if size % WORD:
        return tf.cast(tf.gather(tf.cast(array, tf.int32), indices, axis=axis), tf.uint8)
    words = tf.reshape(array, tf.concat([leading, [size // WORD, WORD]], axis=0))
    found = tf.bitcast(tf.gather(tf.bitcast(words, tf.int32), indices, axis=axis), tf.uint8)
    return tf.reshape(found, tf.concat([tf.shape(found)[:-2], trailing], axis=0))


def _row_by_row(frames: tf.Tensor, earlier: tf.Tensor, blank: tf.Tensor) -> tf.Tensor:
    """[N, ..., C]: all frames, numbered as ``_frame_indices`` numbers them."""
    shape, order = earlier.shape[2:], range(2, len(earlier.shape))
    return tf.concat(
        [
            tf.reshape(tf.transpose(earlier, [1, 0, *order]), [-1, *shape]),
            tf.reshape(frames, [-1, *shape]),
            blank[tf.newaxis],
        ],
        axis=0,
    )


def _frame_indices(first: tf.Tensor, depth: int) -> tf.Tensor:
    """[T, B, depth]: the indices of the frames that each row sees.

    Frames are numbered row by row, starting with the oldest of `earlier`; the last is blank.
    """
    rows, batch, ages = tf.shape(first)[0], tf.shape(first)[1], depth - 1
    # `earlier` was blanked when it was returned, so its frames belong to one episode.
    episode = tf.cumsum(tf.cast(first, tf.int32))
    episode = tf.concat([tf.zeros([ages, batch], tf.int32), episode], axis=0)
    number = tf.reshape(tf.range((ages + rows) * batch), [ages + rows, batch])
    blank = (ages + rows) * batch
    seen_at = tf.range(rows)[:, tf.newaxis] + tf.range(depth)  # [T, depth]
    same = tf.gather(episode, seen_at) == episode[ages:, tf.newaxis]  # [T, depth, B]
    return tf.transpose(tf.where(same, tf.gather(number, seen_at), blank), [0, 2, 1])
