"""Two small layers, with or without an LSTM, for observations that are a few numbers."""

import itertools

import gymnasium as gym
import tensorflow as tf

from agents.agent import Agent, Torso
from agents.kinds.vectors import KindsTorso
from agents.layers import RELU_GAIN, Build, Linear
from agents.normaliser import Bounds, Normaliser
from user_error import UserError

HIDDEN = (64, 64)


class VectorTorso(Torso):
    """Numbers scaled to about -1…1 → linear 64, tanh → linear 64, tanh (or ``--hidden_sizes``,
    ``--activation``).

    Always in float32: the layers are too small to gain from fewer bits, and numbers, unlike
    pixels, may need all of them.
    """

    def __init__(self, space: gym.spaces.Box, frame_stack: int, build: Build):
        super().__init__()
        self.frame = tf.TensorSpec(space.shape, tf.float32)
        self._bounds = Bounds(space)
        build = build.in_float32()
        hidden = hidden_sizes(build)
        self.output_size = hidden[-1]
        sizes = itertools.pairwise((frame_stack * space.shape[0], *hidden))
        self._layers = [Linear(inputs, outputs, build, RELU_GAIN) for inputs, outputs in sizes]
        self._activation = build.activation
        if build.network.normalise:
            self.backdrop = Normaliser(self.frame)

    def prepare(self, observation: tf.Tensor) -> tf.Tensor:
        """[T, B, D] → [T, B, D] float32, bounds at -1 and 1, the unbounded compressed.

        Where they are normalised, they stay as they are.
        """
        if self.backdrop:
            return tf.cast(observation, tf.float32)
        return self._bounds.scaled(observation)

    def __call__(self, stacks: tf.Tensor) -> tf.Tensor:
        """[N, frame_stack * D] → [N, 64]."""
        features = stacks
        for layer in self._layers:
            features = self._activation(layer(features))
        return features


class VectorAgent(Agent):
    """VectorTorso → + last reward, last action → policy, baseline."""

    needs = "vectors of numbers [size]"
    chooses_activation = True

    @classmethod
    def fits(cls, observation_space: gym.Space) -> bool:
        """Boxes with a single axis."""
        return isinstance(observation_space, gym.spaces.Box) and len(observation_space.shape) == 1

    def make_torso(
        self, observation_space: gym.spaces.Box, frame_stack: int, build: Build
    ) -> Torso:
        """The two layers; the first is an own one for each kind of body."""
        if build.network.channels:
            given = ",".join(map(str, build.network.channels))
            raise UserError(
                f"--channels={given}: {type(self).__name__} has no convolutions; leave it out. "
                "--hidden_sizes are the sizes of its layers."
            )
        kinds = build.network.kinds
        if kinds:
            seen = [kind.observation_space for kind in kinds]
            return KindsTorso(seen, frame_stack, hidden_sizes(build), build)
        return VectorTorso(observation_space, frame_stack, build)


class VectorLSTMAgent(VectorAgent):
    """VectorTorso → + last reward, last action → LSTM 64 → policy, baseline.

    For vectors that do not show the whole state.
    """

    lstm_size = 64


def hidden_sizes(build: Build) -> tuple[int, ...]:
    """The outputs of a torso's layers."""
    return build.network.hidden_or(HIDDEN, "a network of vectors")
