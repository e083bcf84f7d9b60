"""The small recurrent network of OpenAI's universe starter agent."""

import math

import gymnasium as gym
import tensorflow as tf

from agents.agent import Agent, Torso, is_byte_image
from agents.backdrop import Backdrop
from agents.layers import RELU_GAIN, Build, Convolution
from user_error import UserError

CHANNELS = (32, 32, 32, 32)


class StarterTorso(Torso):
    """frames → 4 × conv 32·3×3/2, each with an ELU."""

    def __init__(self, shape: tuple[int, ...], frame_stack: int, build: Build):
        super().__init__()
        height, width, channels = shape
        self.frame = tf.TensorSpec(shape, tf.uint8)
        self.backdrop: Backdrop = Backdrop(self.frame, build.compute_dtype)
        if build.network.hidden:
            raise UserError("--hidden_sizes: StarterLSTMAgent has no fully connected layers.")
        outputs = build.network.channels_or(CHANNELS, "StarterLSTMAgent", len(CHANNELS))
        inputs = (frame_stack * channels, *outputs[:-1])
        self._convolutions = [
            Convolution(before, after, 3, build, RELU_GAIN, stride=2, padding="SAME")
            for before, after in zip(inputs, outputs, strict=True)
        ]
        halved = 2 ** len(outputs)
        self.output_size = outputs[-1] * math.ceil(height / halved) * math.ceil(width / halved)

    def prepare(self, observation: tf.Tensor) -> tf.Tensor:
        """[T, B, H, W, C] uint8, unchanged."""
        return observation

    def __call__(self, stacks: tf.Tensor) -> tf.Tensor:
        """[N, H, W, frame_stack * C] → [N, 32 * ⌈H/16⌉ * ⌈W/16⌉]."""
        first, *others = self._convolutions
        x = tf.nn.elu(first(stacks, self.backdrop.scale()))
        for convolution in others:
            x = tf.nn.elu(convolution(x))
        return tf.reshape(x, [-1, self.output_size])


class StarterLSTMAgent(Agent):
    """StarterTorso → + last reward, last action → LSTM 256 → policy, baseline."""

    needs = "images of bytes [height, width, channels]"
    lstm_size = 256

    @classmethod
    def fits(cls, observation_space: gym.Space) -> bool:
        """Images of bytes, of any size."""
        return is_byte_image(observation_space)

    def make_torso(
        self, observation_space: gym.spaces.Box, frame_stack: int, build: Build
    ) -> Torso:
        """The convolutions."""
        return StarterTorso(observation_space.shape, frame_stack, build)
