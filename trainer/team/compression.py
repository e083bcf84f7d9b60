"""Sums of gradients over learners with half of the bytes on the network.

Each learner gets its part of all learners' gradients, adds them up in float32 and hands the sums
round. So a number is rounded to 16 bits twice, however many learners there are, and all of them
have the same sums, bit for bit.
"""

from typing import Any

import tensorflow as tf

TYPES = {"fp16": tf.float16, "bf16": tf.bfloat16}


def sums(hvd: Any, tensors: list[tf.Tensor], dtype: tf.DType) -> list[tf.Tensor]:
    """The sums over all learners; part of a graph, as their names on the network must stay."""
    sizes = [tensor.shape.num_elements() for tensor in tensors]
    flat = tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], 0)
    part = -(-sum(sizes) // hvd.size())
    padded = tf.pad(flat, [[0, part * hvd.size() - sum(sizes)]])
    parts = _unpacked(hvd.alltoall(_packed(padded, dtype), name="parts"), dtype)
    mine = tf.reduce_sum(tf.reshape(parts, [hvd.size(), part]), 0)
    whole = _unpacked(hvd.allgather(_packed(mine, dtype), name="sums"), dtype)
    pieces = tf.split(tf.reshape(whole, [part * hvd.size()])[: sum(sizes)], sizes)
    return [tf.reshape(piece, one.shape) for piece, one in zip(pieces, tensors, strict=True)]


def _packed(values: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    # Horovod knows no bfloat16. It only moves these, so any type of as many bits does.
    return tf.bitcast(tf.cast(values, dtype), tf.uint16)


def _unpacked(packed: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    return tf.cast(tf.bitcast(packed, dtype), tf.float32)
