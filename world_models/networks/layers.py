"""Layers with float32 weights that multiply in another type, as bfloat16."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import sonnet as snt
import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Build:
    """What layers are built with: a source of initial weights, and the type they multiply in."""

    random: np.random.Generator
    dtype: tf.DType = tf.float32

    def weights(self, shape: Sequence[int], inputs: int, name: str) -> tf.Variable:
        """Weights that keep the size of numbers which pass through them."""
        values = self.random.standard_normal(shape) / math.sqrt(inputs)
        return tf.Variable(values.astype(np.float32), name=name)


class Convolution(snt.Module):
    """[B, H, W, inputs] → [B, H', W', outputs]."""

    def __init__(self, build: Build, inputs: int, outputs: int, size: int, stride: int = 1):
        super().__init__()
        self._dtype, self._stride = build.dtype, stride
        self.kernel = build.weights([size, size, inputs, outputs], size * size * inputs, "kernel")
        self.bias = tf.Variable(tf.zeros([outputs]), name="bias")

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        kernel = tf.cast(self.kernel, self._dtype)
        y = tf.nn.conv2d(tf.cast(x, self._dtype), kernel, self._stride, "SAME")
        return tf.nn.bias_add(y, tf.cast(self.bias, self._dtype))


class Enlarging(snt.Module):
    """[B, H, W, inputs] → [B, height, width, outputs], each about twice H and W."""

    def __init__(self, build: Build, inputs: int, outputs: int, size: int, side: tuple[int, int]):
        super().__init__()
        self._dtype, self._shape = build.dtype, (*side, outputs)
        # Each output sees a quarter of the kernel.
        self.kernel = build.weights(
            [size, size, outputs, inputs], size * size * inputs // 4, "kernel"
        )
        self.bias = tf.Variable(tf.zeros([outputs]), name="bias")

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        kernel = tf.cast(self.kernel, self._dtype)
        shape = [x.shape[0], *self._shape]
        y = tf.nn.conv2d_transpose(tf.cast(x, self._dtype), kernel, shape, 2, "SAME")
        return tf.nn.bias_add(y, tf.cast(self.bias, self._dtype))


class Linear(snt.Module):
    """[B, inputs] → [B, outputs] in float32."""

    def __init__(self, build: Build, inputs: int, outputs: int):
        super().__init__()
        self.matrix = build.weights([inputs, outputs], inputs, "weights")
        self.bias = tf.Variable(tf.zeros([outputs]), name="bias")

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        return tf.matmul(tf.cast(x, tf.float32), self.matrix) + self.bias


class Norm(snt.Module):
    """Brings the channels of each pixel to mean 0 and spread 1, then to a learned scale."""

    def __init__(self, channels: int):
        super().__init__()
        self.scale = tf.Variable(tf.ones([channels]), name="scale")
        self.offset = tf.Variable(tf.zeros([channels]), name="offset")

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        precise = tf.cast(x, tf.float32)
        mean, variance = tf.nn.moments(precise, [-1], keepdims=True)
        normed = (precise - mean) * tf.math.rsqrt(variance + 1e-6)
        return tf.cast(normed * self.scale + self.offset, x.dtype)


class Inject(snt.Module):
    """Lets a vector, such as the action, scale and move every channel of a picture."""

    def __init__(self, build: Build, inputs: int, channels: int):
        super().__init__()
        self._gate = Linear(build, inputs, channels)
        self._move = Linear(build, inputs, channels)

    def __call__(self, x: tf.Tensor, vector: tf.Tensor) -> tf.Tensor:
        """x: [B, H, W, C]; vector: [B, inputs]."""
        gate, move = (tf.cast(f(vector), x.dtype) for f in (self._gate, self._move))
        return x * tf.nn.sigmoid(gate)[:, None, None] * 2 + move[:, None, None]
