"""Vectors of several kinds of bodies: an input layer for each, then the same layers for all."""

import itertools
from collections.abc import Sequence

import gymnasium as gym
import tensorflow as tf

from agents.agent import Torso
from agents.kinds.distribution import chosen, padded
from agents.kinds.normaliser import KindsNormaliser
from agents.layers import RELU_GAIN, Build, Linear
from agents.normaliser import Bounds


class KindsTorso(Torso):
    """As ``VectorTorso``, with a first layer of its own for each kind."""

    def __init__(
        self,
        spaces: Sequence[gym.spaces.Box],
        frame_stack: int,
        hidden: Sequence[int],
        build: Build,
    ):
        """``spaces`` are what the kinds see, ``hidden`` the outputs of layers."""
        super().__init__()
        self._sizes = [int(space.shape[0]) for space in spaces]
        self._bounds = [Bounds(space) for space in spaces]
        # At the end is the number of the kind.
        self.frame = tf.TensorSpec([max(self._sizes) + 1], tf.float32)
        self._frame_stack = frame_stack
        build = build.in_float32()
        self.output_size = hidden[-1]
        self._inputs = [
            Linear(frame_stack * size, hidden[0], build, RELU_GAIN, f"input_{index}")
            for index, size in enumerate(self._sizes)
        ]
        self._layers = [Linear(*sizes, build, RELU_GAIN) for sizes in itertools.pairwise(hidden)]
        self._activation = build.activation
        if build.network.normalise:
            self.backdrop = KindsNormaliser(self.frame, len(self._sizes))

    def prepare(self, observation: tf.Tensor) -> tf.Tensor:
        """[T, B, D + 1] → [T, B, D + 1] float32, scaled as ``VectorTorso`` scales each kind's."""
        observation = tf.cast(observation, tf.float32)
        if self.backdrop:
            return observation
        each = [
            padded(bounds.scaled(observation[..., :size]), self.frame.shape[0] - 1)
            for bounds, size in zip(self._bounds, self._sizes, strict=True)
        ]
        number = observation[..., -1:]
        return tf.concat([chosen(each, self._marks(number[..., 0])), number], axis=-1)

    def __call__(self, stacks: tf.Tensor) -> tf.Tensor:
        """[N, frame_stack * (D + 1)] → [N, 64]."""
        frames = tf.reshape(stacks, [-1, self._frame_stack, self.frame.shape[0]])
        each = [
            layer(tf.reshape(frames[..., :size], [-1, self._frame_stack * size]))
            for layer, size in zip(self._inputs, self._sizes, strict=True)
        ]
        features = self._activation(chosen(each, self._marks(stacks[:, -1])))
        for layer in self._layers:
            features = self._activation(layer(features))
        return features

    def _marks(self, number: tf.Tensor) -> tf.Tensor:
        return tf.one_hot(tf.cast(number, tf.int32), len(self._sizes))
