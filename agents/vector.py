"""Two small layers, for observations that are a few numbers rather than an image."""

import gymnasium as gym
import numpy as np
import tensorflow as tf

from agents.agent import Agent, Torso
from agents.layers import RELU_GAIN, Build, Linear

WIDEST_BOUNDS = 1e4  # larger bounds mean "no bounds"


class VectorTorso(Torso):
    """Numbers scaled to about -1…1 → linear 64, tanh → linear 64, tanh.

    Always in float32: the layers are too small to gain from fewer bits, and numbers, unlike
    pixels, may need all of them.
    """

    output_size = 64

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
        inputs = frame_stack * space.shape[0]
        self._first = Linear(inputs, self.output_size, build, RELU_GAIN)
        self._second = Linear(self.output_size, self.output_size, build, RELU_GAIN)

    def prepare(self, observation: tf.Tensor) -> tf.Tensor:
        """[T, B, D] → [T, B, D] float32, bounds at -1 and 1, the unbounded compressed."""
        x = (tf.cast(observation, tf.float32) - self._centre) / self._half_range
        return tf.where(self._bounded, x, tf.sign(x) * tf.math.log1p(tf.abs(x)))

    def __call__(self, stacks: tf.Tensor) -> tf.Tensor:
        """[N, frame_stack * D] → [N, 64]."""
        return tf.tanh(self._second(tf.tanh(self._first(stacks))))


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
