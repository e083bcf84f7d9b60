"""What all architectures share: pictures in, the next picture, reward and end out."""

from typing import NamedTuple

import sonnet as snt
import tensorflow as tf

from world_models.networks.layers import Build, Convolution, Linear
from world_models.networks.sizes import Sizes
from world_models.networks.trunk import Trunk, summary_of

REWARDS = 3  # a reward is -1, 0 or 1


class Prediction(NamedTuple):
    """What comes after an action; all in float32."""

    frame: tf.Tensor  # [B, H, W, C, levels], logits of each pixel's brightness
    reward: tf.Tensor  # [B, REWARDS], logits
    end: tf.Tensor  # [B], the logit that the episode is over
    state: tf.Tensor  # [B, H, W, S], to carry on
    cost: tf.Tensor  # [], what else the network's loss has


class NextFrame(snt.Module):
    """Predicts one step from the newest pictures and the action."""

    def __init__(self, build: Build, sizes: Sizes):
        super().__init__()
        self.sizes = sizes
        inputs = sizes.frames * sizes.channels + sizes.state
        self.trunk = Trunk(build, sizes, inputs)
        bottom, top = sizes.widths[-1], sizes.filters
        self._pixels = Convolution(build, top, sizes.channels * sizes.levels, 1)
        self._copy = Convolution(build, top, sizes.channels, 1)
        self._hidden = Linear(build, 2 * (bottom + top) + sizes.actions, 128)
        self._reward = Linear(build, 128, REWARDS)
        self._end = Linear(build, 128, 1)

    def initial_state(self, count: int) -> tf.Tensor:
        """What is carried into a sequence's first prediction: [count, H, W, S]."""
        sizes = self.sizes
        return tf.zeros([count, sizes.height, sizes.width, sizes.state])

    def __call__(
        self,
        frames: tf.Tensor,
        action: tf.Tensor,
        state: tf.Tensor,
        target: tf.Tensor | None = None,
        chance: tf.Tensor | float = 1.0,
        training: bool = False,
    ) -> Prediction:
        """The step after ``frames`` [B, H, W, frames * C] uint8, oldest first, by ``action`` [B].

        ``target`` [B, H, W, C] is the true next picture, which only learning knows; ``chance`` is
        how often it must do without. ``state`` is that of the prediction before.
        """
        sizes = self.sizes
        seen = tf.cast(self._noisy(frames) if training else frames, tf.float32) / 127.5 - 1
        acted = tf.one_hot(action, sizes.actions)
        middle, skips = self.trunk.down(tf.concat([seen, state], -1), acted, training)
        middle, cost = self.in_the_middle(middle, seen, target, chance)
        features = self.trunk.up(middle, skips, acted, training)
        newest = frames[..., -sizes.channels :]
        heads = tf.concat([summary_of(middle), summary_of(features), acted], -1)
        hidden = tf.nn.relu(self._hidden(heads))
        return Prediction(
            self._picture(features, newest),
            self._reward(hidden),
            self._end(hidden)[:, 0],
            self.next_state(features, state),
            cost,
        )

    def in_the_middle(
        self,
        middle: tf.Tensor,
        seen: tf.Tensor,
        target: tf.Tensor | None,
        chance: tf.Tensor | float,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """The middle with what an architecture adds there, and what that costs."""
        return middle, tf.zeros([])

    def next_state(self, features: tf.Tensor, state: tf.Tensor) -> tf.Tensor:
        """What is carried to the next prediction."""
        return state

    def _picture(self, features: tf.Tensor, newest: tf.Tensor) -> tf.Tensor:
        """Logits of brightness; most pixels stay, so there is a short way to say just that."""
        sizes = self.sizes
        logits = tf.cast(self._pixels(features), tf.float32)
        shape = [newest.shape[0], sizes.height, sizes.width, sizes.channels, sizes.levels]
        stays = tf.cast(self._copy(features), tf.float32)[..., None]
        return tf.reshape(logits, shape) + stays * tf.one_hot(
            to_levels(newest, sizes.levels), sizes.levels
        )

    def _noisy(self, frames: tf.Tensor) -> tf.Tensor:
        """The pictures with some pixels replaced, so that dreams may contain mistakes."""
        shape = tf.shape(frames)
        other = tf.cast(tf.random.uniform(shape, 0, 256, tf.int32), tf.uint8)
        return tf.where(tf.random.uniform(shape) < self.sizes.noise, other, frames)


def to_levels(pictures: tf.Tensor, levels: int) -> tf.Tensor:
    """Pixels of bytes as whole numbers below ``levels``."""
    if levels == 256:
        return tf.cast(pictures, tf.int32)
    return tf.cast(tf.round(tf.cast(pictures, tf.float32) * ((levels - 1) / 255)), tf.int32)


def to_bytes(logits: tf.Tensor) -> tf.Tensor:
    """The likeliest picture [..., C] uint8 of logits [..., C, levels]."""
    step = 255 / (logits.shape[-1] - 1)
    best = tf.argmax(logits, -1, output_type=tf.int32)
    return tf.cast(tf.round(tf.cast(best, tf.float32) * step), tf.uint8)
