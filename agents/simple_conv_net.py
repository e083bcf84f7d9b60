"""Three convolutions and a linear layer: small, quick, and enough for Atari."""

import gymnasium as gym
import tensorflow as tf

from agents.agent import Agent, Torso, is_byte_image
from agents.backdrop import Backdrop
from agents.layers import RELU_GAIN, Build, Convolution, Linear
from agents.space_to_depth import BLOCK, kernel_over_blocks, to_blocks

CHANNELS = (32, 64, 64)
HIDDEN = (512,)
SMALLEST = 36  # pixels per side; fewer leave no output of the convolutions


class SimpleConvNetTorso(Torso):
    """frames → conv 32·8×8/4 → 64·4×4/2 → 64·3×3/1 → linear 512, each with a ReLU."""

    def __init__(self, shape: tuple[int, ...], frame_stack: int, build: Build):
        super().__init__()
        height, width, channels = shape
        self._frame_stack = frame_stack
        self.frame = tf.TensorSpec([height // BLOCK, width // BLOCK, BLOCK**2 * channels], tf.uint8)
        stacked = frame_stack * channels
        self.backdrop: Backdrop = Backdrop(self.frame, build.compute_dtype)
        one, two, three = build.network.channels_or(CHANNELS, "SimpleConvNetAgent", 3)
        (self.output_size,) = build.network.hidden_or(HIDDEN, "SimpleConvNetAgent", 1)
        self._first = Convolution(stacked, one, 8, build, RELU_GAIN)
        self._second = Convolution(one, two, 4, build, RELU_GAIN, stride=2)
        self._third = Convolution(two, three, 3, build, RELU_GAIN)
        pixels = _pixels_left(height) * _pixels_left(width)
        self._linear = Linear(three * pixels, self.output_size, build, RELU_GAIN)

    def prepare(self, observation: tf.Tensor) -> tf.Tensor:
        """[T, B, H, W, C] uint8 → [T, B, H // 4, W // 4, 16 * C] uint8."""
        return to_blocks(observation)

    def __call__(self, stacks: tf.Tensor) -> tf.Tensor:
        """[N, H // 4, W // 4, frame_stack * 16 * C] → [N, 512]."""
        kernel = self._first.kernel(self.backdrop.scale())
        kernel = kernel_over_blocks(kernel, self._frame_stack)
        x = tf.nn.relu(self._first.convolve(stacks, kernel, stride=1))
        x = tf.nn.relu(self._second(x))
        x = tf.nn.relu(self._third(x))
        return tf.nn.relu(self._linear(tf.reshape(x, [-1, self._linear.weights.shape[1]])))


class SimpleConvNetAgent(Agent):
    """SimpleConvNetTorso → + last reward, last action → policy, baseline."""

    needs = f"images of bytes [height, width, channels], at least {SMALLEST}×{SMALLEST}"

    @classmethod
    def fits(cls, observation_space: gym.Space) -> bool:
        """Images of bytes that are large enough for the convolutions."""
        return is_byte_image(observation_space) and min(observation_space.shape[:2]) >= SMALLEST

    def make_torso(
        self, observation_space: gym.spaces.Box, frame_stack: int, build: Build
    ) -> Torso:
        """The convolutions."""
        return SimpleConvNetTorso(observation_space.shape, frame_stack, build)


def _pixels_left(size: int) -> int:
    """The pixels per side that the three convolutions leave of `size`."""
    for kernel, stride in (8, 4), (4, 2), (3, 1):
        size = (size - kernel) // stride + 1
    return size
