"""The deep residual network of the IMPALA paper: slower, and stronger on complex pictures."""

import math

import gymnasium as gym
import sonnet as snt
import tensorflow as tf

from agents.agent import Agent, Torso, is_byte_image
from agents.backdrop import Backdrop
from agents.layers import RELU_GAIN, Build, Convolution, Linear

SECTIONS = (16, 32, 32)  # channels
BLOCKS = 2  # a section
HIDDEN = (256,)


class ResidualBlock(snt.Module):
    """[N, H, W, C] → the same: ReLU, conv, ReLU, conv, add."""

    def __init__(self, channels: int, added: float, build: Build):
        super().__init__()
        # There is no normalization: if every block added as much as its input, initial features
        # would be many times too large. So its gain is ``added``.
        self._first = Convolution(channels, channels, 3, build, RELU_GAIN, padding="SAME")
        self._second = Convolution(channels, channels, 3, build, added, padding="SAME")

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        """x: [N, H, W, C]."""
        added = self._second(tf.nn.relu(self._first(tf.nn.relu(x))))
        # TensorFlow's remapper would try to fuse a plain sum into the convolution, fail at the sum
        # before it, and give up all fusions. It ignores sums of different ranks.
        return tf.squeeze(tf.expand_dims(x, 0) + added, 0)


class Section(snt.Module):
    """[N, H, W, inputs] → [N, ⌈H/2⌉, ⌈W/2⌉, channels]: conv, max-pool 3×3/2, residual blocks."""

    def __init__(self, inputs: int, channels: int, added: float, build: Build):
        super().__init__()
        self._convolution = Convolution(inputs, channels, 3, build, 1.0, padding="SAME")
        self._blocks = [ResidualBlock(channels, added, build) for _ in range(BLOCKS)]

    def __call__(self, x: tf.Tensor, scale: tf.Tensor | None = None) -> tf.Tensor:
        """x: [N, H, W, inputs], to be multiplied by the scale."""
        x = tf.nn.max_pool2d(self._convolution(x, scale), 3, 2, "SAME")
        for block in self._blocks:
            x = block(x)
        return x


class ResNetTorso(Torso):
    """frames → 3 sections of 16, 32, 32 channels → ReLU, linear 256, ReLU."""

    def __init__(self, shape: tuple[int, ...], frame_stack: int, build: Build):
        super().__init__()
        height, width, channels = shape
        self.frame = tf.TensorSpec(shape, tf.uint8)
        self.backdrop: Backdrop = Backdrop(self.frame, build.compute_dtype)
        sections = build.network.channels_or(SECTIONS, "a ResNet agent")
        (self.output_size,) = build.network.hidden_or(HIDDEN, "a ResNet agent", 1)
        inputs = [frame_stack * channels, *sections]
        added = RELU_GAIN / math.sqrt(BLOCKS * len(sections))
        self._sections = [
            Section(inputs[index], channels, added, build)
            for index, channels in enumerate(sections)
        ]
        halved = 2 ** len(sections)
        pixels = math.ceil(height / halved) * math.ceil(width / halved)
        self._linear = Linear(sections[-1] * pixels, self.output_size, build, RELU_GAIN)

    def prepare(self, observation: tf.Tensor) -> tf.Tensor:
        """[T, B, H, W, C] uint8, unchanged."""
        return observation

    def __call__(self, stacks: tf.Tensor) -> tf.Tensor:
        """[N, H, W, frame_stack * C] → [N, 256]."""
        first, *others = self._sections
        x = first(stacks, self.backdrop.scale())
        for section in others:
            x = section(x)
        x = tf.reshape(tf.nn.relu(x), [-1, self._linear.weights.shape[1]])
        return tf.nn.relu(self._linear(x))


class ResNetAgent(Agent):
    """ResNetTorso → + last reward, last action → policy, baseline."""

    needs = "images of bytes [height, width, channels]"

    @classmethod
    def fits(cls, observation_space: gym.Space) -> bool:
        """Images of bytes, of any size."""
        return is_byte_image(observation_space)

    def make_torso(
        self, observation_space: gym.spaces.Box, frame_stack: int, build: Build
    ) -> Torso:
        """The residual network."""
        return ResNetTorso(observation_space.shape, frame_stack, build)


class ResNetLSTMAgent(ResNetAgent):
    """ResNetTorso → + last reward, last action → LSTM 256 → policy, baseline.

    The large agent of the IMPALA paper.
    """

    lstm_size = 256
