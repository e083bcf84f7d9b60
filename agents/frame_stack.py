"""Frame stacking: from each step's newest frame to the last few frames of its episode.

Actors send and store single frames; acting (one row) and learning (a whole unroll) stack
them here with the same function, so both see the same bits.
"""

import tensorflow as tf


def stack_frames(
    frames: tf.Tensor, first: tf.Tensor, earlier: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Each row's frame behind the frames before it, joined along the last axis, oldest first.

    What lies before an episode's first frame is zeros. Repeating the first frame instead
    would need to know which frame that was, at every row; zeros need only a mask.

    Args:
        frames: [T, B, ..., C], each row's newest frame.
        first: [T, B] bool, the frame starts an episode: frames before it are of another one.
        earlier: [B, K, ..., C], the K frames before row 0, oldest first.

    Returns:
        The stacks [T, B, ..., (K + 1) * C], and `earlier` for the row after the last.
    """
    depth = earlier.shape[1]
    if depth == 0:
        return frames, earlier
    rows = tf.shape(frames)[0]
    order = list(range(len(earlier.shape)))
    timeline = tf.concat([tf.transpose(earlier, [1, 0, *order[2:]]), frames], axis=0)

    stack = [frames]
    visible = same_episode = tf.logical_not(first)
    for age in range(1, depth + 1):
        aged = timeline[depth - age : depth - age + rows]
        stack.insert(0, aged * tf.cast(_like(visible, aged), aged.dtype))
        # `earlier` was masked when it was handed on, so above row 0 everything is visible.
        above = tf.concat([tf.ones_like(first[:1]), visible[:-1]], axis=0)
        visible = tf.logical_and(same_episode, above)
    newest = tf.stack([aged[-1] for aged in stack[1:]], axis=1)
    return tf.concat(stack, axis=-1), newest


def _like(mask: tf.Tensor, tensor: tf.Tensor) -> tf.Tensor:
    """[T, B] → [T, B, 1, ...] with as many axes as `tensor`."""
    return mask[(..., *[tf.newaxis] * (len(tensor.shape) - 2))]
