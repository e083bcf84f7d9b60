"""Frame stacking: from each step's newest frame to the last few frames of its episode.

Actors send and store single frames; acting (one row) and learning (a whole unroll) stack
them here with the same function, so both see the same bits.
"""

import tensorflow as tf


def stack_frames(
    frames: tf.Tensor,
    first: tf.Tensor,
    earlier: tf.Tensor,
    blank: tf.Tensor | None = None,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Each row's frame behind the frames before it, joined along the last axis, oldest first.

    What lies before an episode's first frame is blank. Repeating the first frame instead
    would need to know which frame that was, at every row; this needs only a mask, and none
    where no episode starts.

    Args:
        frames: [T, B, ..., C], each row's newest frame.
        first: [T, B] bool, the frame starts an episode: frames before it are of another one.
        earlier: [B, K, ..., C], the K frames before row 0, oldest first.
        blank: [..., C], a frame on which there is nothing to see; zeros if None.

    Returns:
        The stacks [T, B, ..., (K + 1) * C], and `earlier` for the row after the last.
    """
    depth = earlier.shape[1]
    if depth == 0:
        return frames, earlier
    rows = tf.shape(frames)[0]
    order = list(range(len(earlier.shape)))
    timeline = tf.concat([tf.transpose(earlier, [1, 0, *order[2:]]), frames], axis=0)
    aged = [timeline[depth - age : depth - age + rows] for age in range(1, depth + 1)]
    if blank is None:
        blank = tf.zeros([], frames.dtype)
    aged = tf.cond(
        tf.reduce_any(first), lambda: _of_the_same_episode(aged, first, blank), lambda: aged
    )
    newest = tf.stack([frames[-1], *[one[-1] for one in aged[:-1]]][::-1], axis=1)
    return tf.concat([*aged[::-1], frames], axis=-1), newest


def _of_the_same_episode(
    aged: list[tf.Tensor], first: tf.Tensor, blank: tf.Tensor
) -> list[tf.Tensor]:
    """Frames [T, B, ...] of each age, the youngest first, blank where another episode's were."""
    visible = same_episode = tf.logical_not(first)
    seen = []
    for one in aged:
        seen.append(tf.where(_like(visible, one), one, blank))
        # `earlier` was masked when it was handed on, so above row 0 everything is visible.
        above = tf.concat([tf.ones_like(first[:1]), visible[:-1]], axis=0)
        visible = tf.logical_and(same_episode, above)
    return seen


def _like(mask: tf.Tensor, tensor: tf.Tensor) -> tf.Tensor:
    """[T, B] → [T, B, 1, ...] with as many axes as `tensor`."""
    return mask[(..., *[tf.newaxis] * (len(tensor.shape) - 2))]
