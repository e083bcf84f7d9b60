"""An LSTM over unrolls in which episodes end and begin."""

from typing import NamedTuple

import numpy as np
import sonnet as snt
import tensorflow as tf

from agents.layers import Build

FORGET_BIAS = 1.0


class LSTMState(NamedTuple):
    """What the LSTM carries from row to row."""

    hidden: tf.Tensor  # [B, size] float32
    cell: tf.Tensor  # [B, size] float32


class LSTM(snt.Module):
    """[T, B, inputs] → [T, B, size] in float32, its state cleared where an episode starts."""

    def __init__(self, inputs: int, size: int, build: Build, name: str | None = None):
        super().__init__(name=name)
        build = build.in_float32()
        self.size = size
        self.from_input = build.variable(build.normal([inputs, 4 * size]), "from_input")
        self.from_hidden = build.variable(build.normal([size, 4 * size]), "from_hidden")
        self.bias = build.variable(np.zeros(4 * size), "bias")

    def initial_state(self, batch_size: int | tf.Tensor) -> LSTMState:
        """Zeros [B, size]: what `first` resets to as well."""
        return LSTMState(tf.zeros([batch_size, self.size]), tf.zeros([batch_size, self.size]))

    def __call__(
        self, inputs: tf.Tensor, first: tf.Tensor, state: LSTMState
    ) -> tuple[tf.Tensor, LSTMState]:
        """inputs: [T, B, D], first: [T, B] bool; returns [T, B, size] and the state after them."""
        # One large product for all rows; only what depends on the row before is left to the loop.
        projected = tf.tensordot(inputs, self.from_input, 1) + self.bias
        keep = tf.cast(tf.logical_not(first), tf.float32)[..., tf.newaxis]
        hidden, cell = state
        outputs = []
        for row, kept in zip(tf.unstack(projected), tf.unstack(keep), strict=True):
            gates = row + tf.matmul(hidden * kept, self.from_hidden)
            enter, candidate, forget, leave = tf.split(gates, 4, axis=-1)
            remembered = tf.sigmoid(forget + FORGET_BIAS) * cell * kept
            cell = remembered + tf.sigmoid(enter) * tf.tanh(candidate)
            hidden = tf.sigmoid(leave) * tf.tanh(cell)
            outputs.append(hidden)
        return tf.stack(outputs), LSTMState(hidden, cell)
