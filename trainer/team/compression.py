"""Sums of gradients over learners, with half the bytes on the network.

Each learner receives its part of all learners' gradients, adds it up in float32 and sends the
sums to the others. So a number is rounded to 16 bits twice, however many learners there are, and
all of them get bit-identical sums.
"""

from typing import Any

import tensorflow as tf

TYPES = {"fp16": tf.float16, "bf16": tf.bfloat16}


def sums(hvd: Any, tensors: list[tf.Tensor], dtype: tf.DType) -> list[tf.Tensor]:
    """The sums over all learners; call it in a graph, where Horovod's tensor names are fixed."""
    if not tensors:
        return []
    sizes = [tensor.shape.num_elements() for tensor in tensors]
    flat = tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], 0)
    part = -(-sum(sizes) // hvd.size())
    padded = tf.pad(flat, [[0, part * hvd.size() - sum(sizes)]])
    parts = _unpacked(hvd.alltoall(_packed(padded, dtype), name="parts"), dtype)
    mine = tf.reduce_sum(tf.reshape(parts, [hvd.size(), part]), 0)
    whole = _unpacked(hvd.allgather(_packed(mine, dtype), name="sums"), dtype)
    pieces = tf.split(tf.reshape(whole, [part * hvd.size()])[: sum(sizes)], sizes)
    return [tf.reshape(piece, tensor.shape) for piece, tensor in zip(pieces, tensors, strict=True)]


def _packed(values: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    # Horovod does not support bfloat16. It only moves these, so any type of 16 bits will do.
    return tf.bitcast(tf.cast(values, dtype), tf.uint16)


def _unpacked(packed: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    return tf.cast(tf.bitcast(packed, dtype), tf.float32)
