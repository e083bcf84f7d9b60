"""What a world model learns from: sequences of real play, one step after another."""

from typing import NamedTuple

import tensorflow as tf

from world_models.networks.next_frame import NextFrame, Prediction, to_bytes, to_levels

# A pixel's mean loss is small where most of them stay: only a few are worth learning.
PICTURE_COST = 10.0


class Windows(NamedTuple):
    """Pieces of real play, each of one episode: F pictures, then K steps that follow."""

    frames: tf.Tensor  # [B, F + K, H, W, C] uint8
    action: tf.Tensor  # [B, K] int32; number k leads to picture F + k
    reward: tf.Tensor  # [B, K] float32, raw
    end: tf.Tensor  # [B, K] bool, that step ended the game
    valid: tf.Tensor  # [B, K] float32, 0 where the episode was over before


class Losses(NamedTuple):
    """The parts of the loss, and how often the likeliest reward and end are the true ones."""

    total: tf.Tensor
    picture: tf.Tensor
    reward: tf.Tensor
    end: tf.Tensor
    bits: tf.Tensor
    reward_right: tf.Tensor
    end_right: tf.Tensor
    pixels_right: tf.Tensor


def losses(
    network: NextFrame,
    windows: Windows,
    clip: float,
    dreamed: tf.Tensor | float,
    chance: tf.Tensor | float,
) -> Losses:
    """Means over the steps of all windows.

    Of a pixel's loss, the first ``clip`` nats do not count: what is nearly certain need not become
    more so. ``dreamed`` is how often a step sees the picture that was predicted before instead of
    the real one; ``chance`` is that of bits that do not know the target.
    """
    frames, count = network.sizes.frames, windows.action.shape[0]
    # [B, H, W, C] each
    seen = [windows.frames[:, n] for n in range(frames)]
    state = network.initial_state(count)
    steps = []
    for k in range(windows.action.shape[1]):
        target = windows.frames[:, frames + k]
        found = network(
            tf.concat(seen[-frames:], -1), windows.action[:, k], state, target, chance, True
        )
        steps.append(_of_step(found, target, windows, k, clip))
        use = tf.random.uniform([count, 1, 1, 1]) < dreamed
        seen.append(tf.where(use, to_bytes(found.frame), target))
        state = found.state
    weights = tf.transpose(windows.valid)
    parts = [
        tf.reduce_sum(tf.stack(part) * weights) / tf.maximum(tf.reduce_sum(weights), 1.0)
        for part in zip(*steps, strict=True)
    ]
    return Losses(PICTURE_COST * parts[0] + tf.add_n(parts[1:4]), *parts)


def _of_step(
    found: Prediction, target: tf.Tensor, windows: Windows, k: int, clip: float
) -> tuple[tf.Tensor, ...]:
    """The parts of ``Losses`` but the total, of each window [B]."""
    levels = to_levels(target, found.frame.shape[-1])
    pixels = tf.nn.sparse_softmax_cross_entropy_with_logits(levels, found.frame)
    kind = tf.cast(tf.sign(windows.reward[:, k]), tf.int32) + 1
    end = tf.cast(windows.end[:, k], tf.float32)
    same = tf.argmax(found.frame, -1, output_type=tf.int32) == levels
    return (
        tf.reduce_mean(tf.nn.relu(pixels - clip), [1, 2, 3]),
        tf.nn.sparse_softmax_cross_entropy_with_logits(kind, found.reward),
        tf.nn.sigmoid_cross_entropy_with_logits(end, found.end),
        tf.fill(tf.shape(end), found.cost),
        tf.cast(tf.argmax(found.reward, -1, output_type=tf.int32) == kind, tf.float32),
        tf.cast((found.end > 0) == windows.end[:, k], tf.float32),
        tf.reduce_mean(tf.cast(same, tf.float32), [1, 2, 3]),
    )
