"""A convolution over blocks equals the convolution over the images they were made of."""

import numpy as np
import pytest
import tensorflow as tf

from agents.frame_stack import stack_frames
from agents.space_to_depth import kernel_over_blocks, to_blocks


def images(*shape):
    return np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)


@pytest.mark.parametrize("channels", [1, 3])
def test_blocks_are_the_same_as_tensorflow_s(channels):
    frames = images(2, 3, 8, 12, channels)
    expected = tf.nn.space_to_depth(frames.reshape(6, 8, 12, channels), 4)
    np.testing.assert_array_equal(
        to_blocks(tf.constant(frames)), tf.reshape(expected, [2, 3, 2, 3, 16 * channels])
    )


@pytest.mark.parametrize(
    "height, width, channels, frames",
    [(84, 84, 1, 4), (84, 84, 1, 1), (96, 96, 3, 2), (37, 42, 1, 4), (63, 40, 3, 1)],
)
def test_convolution_over_blocks_equals_the_plain_one(height, width, channels, frames):
    newest = images(1, 2, height, width, channels)
    earlier = images(2, frames - 1, height, width, channels)
    first = tf.zeros([1, 2], tf.bool)
    kernel = tf.random.stateless_normal([8, 8, frames * channels, 5], [0, 1])

    def stacked(frames, earlier):
        blank = tf.zeros(frames.shape[2:], tf.uint8)
        stacks, _ = stack_frames(frames, first, earlier, blank)
        return tf.cast(stacks, tf.float32)

    plain = stacked(tf.constant(newest), tf.constant(earlier))
    expected = tf.nn.conv2d(plain, kernel, 4, "VALID")
    blocks = stacked(to_blocks(tf.constant(newest)), to_blocks(tf.constant(earlier)))
    rearranged = kernel_over_blocks(kernel, frames)
    result = tf.nn.conv2d(blocks, rearranged, 1, "VALID")
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=0.05)  # sums reach 10,000
