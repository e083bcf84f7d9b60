"""From pictures down to a small middle and up again; skips lead across, the action comes in."""

import numpy as np
import sonnet as snt
import tensorflow as tf

from world_models.networks.layers import Build, Convolution, Enlarging, Inject, Norm
from world_models.networks.sizes import Sizes

KERNEL = 4  # of the layers that halve and double


class Trunk(snt.Module):
    """A U-shaped network for pictures of the given sizes."""

    def __init__(self, build: Build, sizes: Sizes, inputs: int):
        """``inputs`` are the channels of what comes in."""
        super().__init__()
        self._sizes = sizes
        sides, widths = sizes.sides, sizes.widths
        self._embed = Convolution(build, inputs, widths[0], 3)
        # Convolutions cannot know where they are.
        place = 0.02 * build.random.standard_normal([*sides[0], widths[0]])
        self._place = tf.Variable(place.astype(np.float32), name="place")
        self._first = Norm(widths[0])
        pairs = list(zip(widths, widths[1:], strict=False))
        self._down = [Convolution(build, a, b, KERNEL, stride=2) for a, b in pairs]
        self._down_norms = [Norm(b) for _, b in pairs]
        self._acted = Inject(build, sizes.actions, widths[-1])
        self._middle = [
            Convolution(build, widths[-1], widths[-1], 3) for _ in range(sizes.residuals)
        ]
        self._middle_norms = [Norm(widths[-1]) for _ in range(sizes.residuals)]
        self._up = [
            Enlarging(build, b, a, KERNEL, side)
            for (a, b), side in zip(reversed(pairs), reversed(sides[:-1]), strict=True)
        ]
        self._up_norms = [Norm(a) for a, _ in reversed(pairs)]
        self._up_acted = [Inject(build, sizes.actions, a) for a, _ in reversed(pairs)]

    def down(
        self, x: tf.Tensor, action: tf.Tensor, training: bool
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """The middle [B, h, w, C] of ``x``, and what skips it; ``action`` is [B, actions]."""
        x = self._embed(x)
        x = tf.nn.relu(self._first(x + tf.cast(self._place, x.dtype)))
        skips = []
        for layer, norm in zip(self._down, self._down_norms, strict=True):
            skips.append(x)
            x = tf.nn.relu(norm(layer(self._dropped(x, training))))
        return self._acted(x, action), skips

    def up(
        self, x: tf.Tensor, skips: list[tf.Tensor], action: tf.Tensor, training: bool
    ) -> tf.Tensor:
        """Features [B, H, W, filters] of the next picture, from the middle."""
        for layer, norm in zip(self._middle, self._middle_norms, strict=True):
            x = norm(x + tf.nn.relu(layer(self._dropped(x, training))))
        ups = zip(self._up, self._up_norms, self._up_acted, reversed(skips), strict=True)
        for enlarge, norm, act, skip in ups:
            x = tf.nn.relu(norm(act(enlarge(x), action) + skip))
        return x

    def _dropped(self, x: tf.Tensor, training: bool) -> tf.Tensor:
        return tf.nn.dropout(x, self._sizes.dropout) if training and self._sizes.dropout else x


def summary_of(x: tf.Tensor) -> tf.Tensor:
    """[B, 2 C] in float32: the mean and the largest of each channel of [B, H, W, C]."""
    x = tf.cast(x, tf.float32)
    return tf.concat([tf.reduce_mean(x, [1, 2]), tf.reduce_max(x, [1, 2])], -1)
