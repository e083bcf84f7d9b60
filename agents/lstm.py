"""An LSTM over unrolls in which episodes end and begin."""

from typing import NamedTuple

import numpy as np
import sonnet as snt
import tensorflow as tf

from agents.layers import Build


class LSTMState(NamedTuple):
    """What the LSTM carries from row to row."""

    hidden: tf.Tensor  # [B, size] float32
    cell: tf.Tensor  # [B, size] float32


class LSTM(snt.Module):
    """[T, B, inputs] → [T, B, size] in float32, its state cleared where an episode starts."""

    def __init__(self, inputs: int, size: int, build: Build):
        super().__init__()
        build = build.in_float32()
        self.size = size
        self.from_input = build.variable(build.normal([inputs, 4 * size]), "from_input")
        self.from_hidden = build.variable(build.normal([size, 4 * size]), "from_hidden")
        # The 1 biases the LSTM to remember until it has learned what to forget.
        self.bias = build.variable(np.repeat([0.0, 1.0, 0.0, 0.0], size), "bias")

    def initial_state(self, batch_size: int | tf.Tensor) -> LSTMState:
        """Zeros [B, size], to which `first` also resets."""
        return LSTMState(tf.zeros([batch_size, self.size]), tf.zeros([batch_size, self.size]))

    def __call__(
        self, inputs: tf.Tensor, first: tf.Tensor, state: LSTMState
    ) -> tuple[tf.Tensor, LSTMState]:
        """inputs: [T, B, D], first: [T, B] bool; returns [T, B, size] and the state after them."""
        # One large product for all rows; only what depends on the previous row is in the loop.
        projected = tf.tensordot(inputs, self.from_input, 1) + self.bias
        # tf.scan rather than a loop in Python: XLA took 230 s to compile that for 101 rows.
        states = tf.scan(self._step, (projected, first[..., tf.newaxis]), state)
        return states.hidden, tf.nest.map_structure(lambda rows: rows[-1], states)

    def _step(self, state: LSTMState, row: tuple[tf.Tensor, tf.Tensor]) -> LSTMState:
        projected, first = row
        # Not a product with 0: NaN would persist through all later episodes.
        hidden, cell = (tf.where(first, 0.0, carried) for carried in state)
        gates = projected + tf.matmul(hidden, self.from_hidden)
        enter, remember, candidate, leave = tf.split(gates, 4, axis=-1)
        cell = tf.sigmoid(remember) * cell + tf.sigmoid(enter) * tf.tanh(candidate)
        return LSTMState(tf.sigmoid(leave) * tf.tanh(cell), cell)
