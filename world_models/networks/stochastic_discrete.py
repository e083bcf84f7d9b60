"""``stochastic_discrete``: bits say what happens by chance, and a state is carried along.

In training, an encoder that sees the next picture sets the bits. A small recurrent network learns
to predict them, a few at a time, from what is known before; in dreams, it draws them.
"""

import numpy as np
import sonnet as snt
import tensorflow as tf

from world_models.networks.layers import Build, Convolution, Inject, Linear
from world_models.networks.next_frame import NextFrame
from world_models.networks.sizes import Sizes
from world_models.networks.trunk import KERNEL, summary_of

CHUNK = 8  # bits that are predicted together
MEMORY = 128  # of the network that predicts them


class StochasticDiscrete(NextFrame):
    """Adds bits of chance in the middle and a gated state at the top."""

    def __init__(self, build: Build, sizes: Sizes):
        super().__init__(build, sizes)
        bottom = sizes.widths[-1]
        self._encoder = _Encoder(build, sizes)
        self._prior = _Prior(build, 2 * bottom, sizes.bits)
        self._inject = Inject(build, sizes.bits, bottom)
        self._gate = Convolution(build, sizes.filters, sizes.state, 1)
        self._news = Convolution(build, sizes.filters, sizes.state, 1)

    def in_the_middle(
        self,
        middle: tf.Tensor,
        seen: tf.Tensor,
        target: tf.Tensor | None,
        chance: tf.Tensor | float,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """The middle with the bits, and how badly they were predicted."""
        known = tf.stop_gradient(summary_of(middle))
        if target is None:
            return self._inject(middle, self._prior.draw(known)), tf.zeros([])
        bits = self._encoder(seen, target)
        cost = self._prior.cost(known, tf.stop_gradient(bits))
        drawn = tf.random.uniform([middle.shape[0], 1]) < chance
        bits = tf.where(drawn, self._prior.draw(known), bits)
        return self._inject(middle, bits), cost

    def next_state(self, features: tf.Tensor, state: tf.Tensor) -> tf.Tensor:
        """What is kept of the old state, and what is new."""
        gate = tf.nn.sigmoid(tf.cast(self._gate(features), tf.float32))
        return gate * tf.tanh(tf.cast(self._news(features), tf.float32)) + (1 - gate) * state


class _Encoder(snt.Module):
    """Bits of -1 and 1 about the next picture."""

    def __init__(self, build: Build, sizes: Sizes):
        super().__init__()
        widths = sizes.widths
        inputs = [(sizes.frames + 1) * sizes.channels, *widths[1:]]
        pairs = zip(inputs, inputs[1:], strict=False)
        self._down = [Convolution(build, a, b, KERNEL, stride=2) for a, b in pairs]
        self._bits = Linear(build, 2 * inputs[-1], sizes.bits)

    def __call__(self, seen: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        """[B, bits]; gradients pass as if they were not rounded."""
        x = tf.concat([seen, tf.cast(target, tf.float32) / 127.5 - 1], -1)
        for layer in self._down:
            x = tf.nn.relu(layer(x))
        soft = tf.tanh(self._bits(summary_of(x)))
        # Noise makes the encoder prefer clear bits.
        hard = tf.where(soft + 0.5 * tf.random.normal(tf.shape(soft)) > 0, 1.0, -1.0)
        return soft + tf.stop_gradient(hard - soft)


class _Prior(snt.Module):
    """An LSTM that predicts bits, ``CHUNK`` at a time, each from those before."""

    def __init__(self, build: Build, inputs: int, bits: int):
        super().__init__()
        self._chunks = bits // CHUNK
        self._given = Linear(build, inputs, MEMORY)
        self._gates = Linear(build, MEMORY + CHUNK + MEMORY, 4 * MEMORY)
        self._choice = Linear(build, MEMORY, 2**CHUNK)
        # The bits of each number, as -1 and 1.
        self._codes = 2.0 * (np.arange(2**CHUNK)[:, None] >> np.arange(CHUNK) & 1) - 1.0

    def cost(self, known: tf.Tensor, bits: tf.Tensor) -> tf.Tensor:
        """The mean surprise of a bit, in nats."""
        chunks = tf.reshape(bits, [-1, self._chunks, CHUNK])
        numbers = tf.reduce_sum(
            tf.cast(chunks > 0, tf.int32) * (1 << np.arange(CHUNK, dtype=np.int32)), -1
        )
        costs = []
        given, state, last = self._start(known)
        for index in range(self._chunks):
            state = self._step(given, last, state)
            logits = self._choice(state[0])
            costs.append(tf.nn.sparse_softmax_cross_entropy_with_logits(numbers[:, index], logits))
            last = chunks[:, index]
        return tf.reduce_mean(tf.stack(costs)) / CHUNK

    def draw(self, known: tf.Tensor) -> tf.Tensor:
        """Bits [B, bits] by their predicted chances."""
        drawn = []
        given, state, last = self._start(known)
        for _ in range(self._chunks):
            state = self._step(given, last, state)
            number = tf.random.categorical(self._choice(state[0]), 1)[:, 0]
            last = tf.gather(tf.constant(self._codes, tf.float32), number)
            drawn.append(last)
        return tf.stop_gradient(tf.concat(drawn, -1))

    def _start(self, known: tf.Tensor) -> tuple[tf.Tensor, tuple[tf.Tensor, tf.Tensor], tf.Tensor]:
        count = known.shape[0]
        zeros = tf.zeros([count, MEMORY])
        return self._given(known), (zeros, zeros), tf.zeros([count, CHUNK])

    def _step(
        self, given: tf.Tensor, last: tf.Tensor, state: tuple[tf.Tensor, tf.Tensor]
    ) -> tuple[tf.Tensor, tf.Tensor]:
        hidden, cell = state
        gates = tf.split(self._gates(tf.concat([given, last, hidden], -1)), 4, -1)
        enter, forget, leave = (tf.nn.sigmoid(gate) for gate in gates[:3])
        cell = forget * cell + enter * tf.tanh(gates[3])
        return leave * tf.tanh(cell), cell
