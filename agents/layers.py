"""Convolution and Linear with separate dtypes for arithmetic and variables.

Sonnet's own layers tie both to the dtype of their input. Here training can keep weights in
float32 and multiply in bfloat16, and acting can use weights that were cast to bfloat16 once per
update.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import sonnet as snt
import tensorflow as tf

from agents.network import USUAL, Network

RELU_GAIN = math.sqrt(2)


@dataclasses.dataclass(frozen=True)
class Build:
    """What an agent is built with: a source of initial weights, dtypes, the user's choices."""

    random: np.random.Generator
    compute_dtype: tf.DType = tf.float32
    weights_dtype: tf.DType = tf.float32
    network: Network = USUAL

    @property
    def activation(self) -> Callable[[tf.Tensor], tf.Tensor]:
        """What follows the fully connected layers of a network of vectors."""
        return tf.nn.relu if self.network.activation == "relu" else tf.tanh

    def in_float32(self) -> "Build":
        """The same generator, for layers that are too small or too delicate for fewer bits."""
        return dataclasses.replace(self, compute_dtype=tf.float32, weights_dtype=tf.float32)

    def orthogonal(self, shape: Sequence[int], gain: float) -> np.ndarray:
        """Weights [..., outputs] whose rows or columns, whichever are fewer, are orthogonal."""
        inputs, outputs = math.prod(shape[:-1]), shape[-1]
        draws = self.random.standard_normal((max(inputs, outputs), min(inputs, outputs)))
        # By one thread of TensorFlow's: NumPy's shares the work among threads that spin while they
        # wait for each other, which takes fifty times as long where all cores are busy.
        with tf.device("cpu"):
            basis, triangle = (part.numpy() for part in tf.linalg.qr(draws.astype(np.float32)))
        basis *= np.sign(np.diag(triangle))  # otherwise signs depend on the library's QR
        return gain * (basis if inputs >= outputs else basis.T).reshape(shape)

    def normal(self, shape: Sequence[int]) -> np.ndarray:
        """Weights [inputs, outputs] drawn so that outputs are about as large as inputs."""
        return self.random.standard_normal(shape) / math.sqrt(shape[0])

    def variable(self, value: np.ndarray, name: str) -> tf.Variable:
        """A variable in the dtype of weights; every dtype gets the same values."""
        return tf.Variable(tf.cast(value.astype(np.float32), self.weights_dtype), name=name)


class Linear(snt.Module):
    """[N, inputs] → [N, outputs]."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        build: Build,
        gain: float,
        name: str | None = None,
        bias: np.ndarray | None = None,
    ):
        """``bias``: what is added at first, [outputs]; None: nothing."""
        super().__init__(name=name)
        self._dtype = build.compute_dtype
        # Stored output by output: oneDNN then multiplies few rows by many weights in half the time.
        self.weights = build.variable(build.orthogonal([inputs, outputs], gain).T, "weights")
        self.bias = build.variable(np.zeros(outputs) if bias is None else bias, "bias")

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        """x: [N, inputs] of any float dtype; returns [N, outputs] in the compute dtype."""
        weights = tf.cast(self.weights, self._dtype)
        product = tf.matmul(tf.cast(x, self._dtype), weights, transpose_b=True)
        return tf.nn.bias_add(product, tf.cast(self.bias, self._dtype))

    def change_units(self, spread: Any, mean: Any, new_spread: Any, new_mean: Any) -> None:
        """Keeps outputs · spread + mean, [outputs] or [1] each, as they are with new ones."""
        self.weights.assign(self.weights * (spread / new_spread)[:, tf.newaxis])
        self.bias.assign((spread * self.bias + mean - new_mean) / new_spread)


class Convolution(snt.Module):
    """[N, H, W, inputs] → [N, H', W', outputs], with a square kernel."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        size: int,
        build: Build,
        gain: float,
        stride: int = 1,
        padding: str = "VALID",
    ):
        super().__init__()
        self._dtype = build.compute_dtype
        self._stride = stride
        self._padding = padding
        kernel = build.orthogonal([size, size, inputs, outputs], gain)
        self.weights = build.variable(kernel, "weights")
        self.bias = build.variable(np.zeros(outputs), "bias")

    def kernel(self, scale: tf.Tensor | None = None) -> tf.Tensor:
        """[size, size, inputs, outputs] in the compute dtype, times the input's scale.

        A few thousand weights are scaled here instead of millions of pixels.
        """
        if scale is None:
            return tf.cast(self.weights, self._dtype)
        return tf.cast(tf.cast(self.weights, tf.float32) * scale, self._dtype)

    def __call__(self, x: tf.Tensor, scale: tf.Tensor | None = None) -> tf.Tensor:
        """x * scale, convolved in the compute dtype.

        Args:
            x: [N, H, W, inputs] of any dtype.
            scale: of the input, a scalar; None for 1.
        """
        return self.convolve(x, self.kernel(scale), self._stride)

    def convolve(self, x: tf.Tensor, kernel: tf.Tensor, stride: int) -> tf.Tensor:
        """The same with a rearranged `kernel()`, for inputs rearranged in the same way."""
        product = tf.nn.conv2d(tf.cast(x, self._dtype), kernel, stride, self._padding)
        return tf.nn.bias_add(product, tf.cast(self.bias, self._dtype))
