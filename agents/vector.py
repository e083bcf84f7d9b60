"""Two small layers, with or without an LSTM, for observations that are a few numbers."""

import itertools

import gymnasium as gym
import numpy as np
import tensorflow as tf

from agents.agent import Agent, Torso
from agents.layers import RELU_GAIN, Build, Linear
from agents.normaliser import Normaliser

HIDDEN = (64, 64)
WIDEST_BOUNDS = 1e4  # larger bounds mean "no bounds"


class VectorTorso(Torso):
    """Numbers scaled to about -1…1 → linear 64, tanh → linear 64, tanh (or ``--hidden_sizes``).

    Always in float32: the layers are too small to gain from fewer bits, and numbers, unlike
    pixels, may need all of them.
    """

    def __init__(self, space: gym.spaces.Box, frame_stack: int, build: Build):
        super().__init__()
        self.frame = tf.TensorSpec(space.shape, tf.float32)
        low, high = space.low.astype(np.float64), space.high.astype(np.float64)
        self._bounded = (np.abs(low) < WIDEST_BOUNDS) & (np.abs(high) < WIDEST_BOUNDS)
        self._bounded &= low < high
        low, high = np.where(self._bounded, (low, high), ([-1.0], [1.0]))
        self._centre = ((low + high) / 2).astype(np.float32)
        self._half_range = ((high - low) / 2).astype(np.float32)
        build = build.in_float32()
        hidden = build.network.hidden_or(HIDDEN, "a network of vectors")
        self.output_size = hidden[-1]
        sizes = itertools.pairwise((frame_stack * space.shape[0], *hidden))
        self._layers = [Linear(inputs, outputs, build, RELU_GAIN) for inputs, outputs in sizes]
        if build.network.normalise:
            self.backdrop = Normaliser(self.frame)

    def prepare(self, observation: tf.Tensor) -> tf.Tensor:
        """[T, B, D] → [T, B, D] float32, bounds at -1 and 1, the unbounded compressed.

        Where they are normalised, they stay as they are.
        """
        if self.backdrop:
            return tf.cast(observation, tf.float32)
        x = (tf.cast(observation, tf.float32) - self._centre) / self._half_range
        return tf.where(self._bounded, x, tf.sign(x) * tf.math.log1p(tf.abs(x)))

    def __call__(self, stacks: tf.Tensor) -> tf.Tensor:
        """[N, frame_stack * D] → [N, 64]."""
        features = stacks
        for layer in self._layers:
            features = tf.tanh(layer(features))
        return features


class VectorAgent(Agent):
    """VectorTorso → + last reward, last action → policy, baseline."""

    needs = "vectors of numbers [size]"

    @classmethod
    def fits(cls, observation_space: gym.Space) -> bool:
        """Boxes with a single axis."""
        return isinstance(observation_space, gym.spaces.Box) and len(observation_space.shape) == 1

    def make_torso(
        self, observation_space: gym.spaces.Box, frame_stack: int, build: Build
    ) -> Torso:
        """The two layers."""
        return VectorTorso(observation_space, frame_stack, build)


class VectorLSTMAgent(VectorAgent):
    """VectorTorso → + last reward, last action → LSTM 64 → policy, baseline.

    For vectors that do not show the whole state.
    """

    lstm_size = 64
