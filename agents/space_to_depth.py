"""An 8×8 convolution of stride 4 over images, as a 2×2 convolution of stride 1 over blocks.

A block is 4×4 pixels, flattened to channels. Each frame is turned into blocks once; stacking
frames then joins runs of 16 bytes instead of single ones, and the convolution reads its inputs in
order. The arithmetic is the same.
"""

import tensorflow as tf

BLOCK = 4


def to_blocks(images: tf.Tensor) -> tf.Tensor:
    """[..., H, W, C] uint8 → [..., H // 4, W // 4, 16 * C].

    Rows and columns beyond the last whole block are dropped: a convolution of stride 4
    whose kernel is a multiple of 4 wide, without padding, never reaches them.
    """
    height, width, channels = images.shape[-3:]
    down, across = height // BLOCK, width // BLOCK
    leading = tf.shape(images)[:-3]
    images = images[..., : down * BLOCK, : across * BLOCK, :]
    # Four adjacent pixels are moved as one int32.
    words = tf.bitcast(tf.reshape(images, [-1, BLOCK, across, channels, BLOCK]), tf.int32)
    blocks = tf.bitcast(tf.transpose(words, [0, 2, 1, 3]), tf.uint8)
    blocks = tf.reshape(blocks, tf.concat([leading, [down, across, BLOCK**2 * channels]], axis=0))
    return tf.ensure_shape(blocks, [*images.shape[:-3], down, across, BLOCK**2 * channels])


def kernel_over_blocks(kernel: tf.Tensor, frames: int) -> tf.Tensor:
    """[8, 8, frames * C, outputs] for stacked images → [2, 2, frames * 16 * C, outputs]."""
    size, _, channels, outputs = kernel.shape
    size, channels = size // BLOCK, channels // frames
    kernel = tf.reshape(kernel, [size, BLOCK, size, BLOCK, frames, channels, outputs])
    kernel = tf.transpose(kernel, [0, 2, 4, 1, 3, 5, 6])
    return tf.reshape(kernel, [size, size, frames * BLOCK**2 * channels, outputs])
