"""What an agent has of its own for the bodies that it plays: how their actions are written, heads.

``Alike`` is for bodies that see and do the same, ``Unlike`` for those of several kinds. Rows are
[N, ...] here, without [T, B].
"""

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import sonnet as snt
import tensorflow as tf

from agents.distributions import (
    FORBIDDEN,
    Categorical,
    DiagonalGaussian,
    OfOneSpace,
    distribution_for,
)
from agents.kinds.distribution import OfKinds, chosen, padded
from agents.layers import Build, Linear
from agents.network import BodyKind, Network


class Alike:
    """All bodies have the same actions."""

    def __init__(self, action_space: gym.Space, masked: bool):
        """``masked``: the last numbers of an observation say which actions are allowed."""
        self.distribution = distribution_for(action_space)
        self.encoding_size = self.distribution.encoding_size
        self._masked = self.distribution.parameter_count if masked else 0

    def policy_head(self, features: int, build: Build, gain: float) -> Callable[[tf.Tensor], Any]:
        """The layer from features to the policy."""
        return _head(self.distribution, features, build, gain, "policy")

    def baselines(self, values: int) -> int:
        """How many outputs the baseline needs for so many values of a row."""
        return values

    def encode(self, action: tf.Tensor, observation: tf.Tensor) -> tf.Tensor:
        """Actions → [N, E] as a network gets them."""
        return self.distribution.encode(action)

    def policy(self, outputs: tf.Tensor, observation: tf.Tensor) -> tf.Tensor:
        """What the head gives → the policy's parameters or the actions' values, [N, P]."""
        if not self._masked:
            return outputs
        return _allowed(outputs, observation[..., -self._masked :])

    def baseline(self, outputs: tf.Tensor, observation: tf.Tensor) -> tf.Tensor:
        """The baseline's outputs [N, V] → [N, V], or [N] for one value."""
        return tf.squeeze(outputs, -1) if outputs.shape[-1] == 1 else outputs


class Unlike:
    """Bodies have actions of their own, and so heads of their own."""

    def __init__(self, kinds: Sequence[BodyKind], masked: bool):
        """``masked``: the last numbers of what each sees say which actions are allowed."""
        self._own = [distribution_for(kind.action_space) for kind in kinds]
        self._masks = [_mask(kind) for kind in kinds] if masked else []
        self._of_pictures = len(kinds[0].observation_space.shape) == 3
        self._of_kinds: OfKinds | None = None
        if all(isinstance(kind.action_space, gym.spaces.Discrete) for kind in kinds):
            # Those that a kind does not have are never chosen, as if a mask excluded them.
            most = max(own.parameter_count for own in self._own)
            self._of_most = Categorical(most)
            self.distribution: Categorical | OfKinds = self._of_most
        else:
            self._of_kinds = OfKinds([kind.action_space for kind in kinds])
            self.distribution = self._of_kinds
        self.encoding_size = self.distribution.encoding_size

    def policy_head(
        self, features: int, build: Build, gain: float
    ) -> Callable[[tf.Tensor], list[tf.Tensor]]:
        """A layer for each kind."""
        return _Heads([
            _head(own, features, build, gain, f"policy_{index}")
            for index, own in enumerate(self._own)
        ])  # fmt: skip

    def baselines(self, values: int) -> int:
        """One for each kind; or as many values as there are levels, which are not shared either."""
        self._baseline_of_kind = values == 1
        return len(self._own) if self._baseline_of_kind else values

    def encode(self, action: tf.Tensor, observation: tf.Tensor) -> tf.Tensor:
        """Actions → [N, E] as a network gets them."""
        if self._of_kinds:
            return self._of_kinds.encode(action, self._marks(observation))
        return self._of_most.encode(action)

    def policy(self, outputs: Sequence[tf.Tensor], observation: tf.Tensor) -> tf.Tensor:
        """What the heads give → [N, P], of each row's own kind."""
        marks = self._marks(observation)
        if self._of_kinds:
            return self._of_kinds.joined(outputs, marks)
        if self._masks:
            outputs = [
                _allowed(own, observation[..., mask])
                for own, mask in zip(outputs, self._masks, strict=True)
            ]
        most = self.distribution.parameter_count
        return chosen([padded(own, most, FORBIDDEN) for own in outputs], marks)

    def baseline(self, outputs: tf.Tensor, observation: tf.Tensor) -> tf.Tensor:
        """The baseline's outputs [N, V] → [N], of each row's kind; or [N, V], for each level."""
        if not self._baseline_of_kind:
            return outputs
        return tf.reduce_sum(outputs * self._marks(observation), axis=-1)

    def _marks(self, observation: tf.Tensor) -> tf.Tensor:
        """[N, K]: a one for the kind of each row."""
        number = observation[..., 0, 0, 0] if self._of_pictures else observation[..., -1]
        return tf.one_hot(tf.cast(number, tf.int32), len(self._own))


def bodies_of(action_space: gym.Space, network: Network) -> Alike | Unlike:
    """The bodies of a level, which are of the network's kinds if it has any."""
    if network.kinds:
        return Unlike(network.kinds, network.masked)
    return Alike(action_space, network.masked)


class _MeansAlone(snt.Module):
    """Means depend on the features, the logarithms of deviations are weights of their own."""

    def __init__(self, features: int, build: Build, gain: float, name: str, untrained: np.ndarray):
        super().__init__(name=f"{name}_means_alone")
        means, log_stds = np.split(untrained, 2)
        self._means = Linear(features, len(means), build, gain, name, means)
        self._log_stds = build.variable(log_stds, "log_stds")

    def __call__(self, features: tf.Tensor) -> tf.Tensor:
        means = self._means(features)
        log_stds = tf.broadcast_to(tf.cast(self._log_stds, means.dtype), tf.shape(means))
        return tf.concat([means, log_stds], axis=-1)


class _Heads(snt.Module):
    """Layers side by side."""

    def __init__(self, heads: list[Linear | _MeansAlone]):
        super().__init__(name="policies")
        self._heads = heads

    def __call__(self, features: tf.Tensor) -> list[tf.Tensor]:
        return [head(features) for head in self._heads]


def _head(
    own: OfOneSpace, features: int, build: Build, gain: float, name: str
) -> Linear | _MeansAlone:
    """The layer from features to a distribution's parameters."""
    untrained = own.untrained(build.network.deviation)
    if isinstance(own, DiagonalGaussian) and not build.network.state_deviations:
        return _MeansAlone(features, build, gain, name, untrained)
    return Linear(features, own.parameter_count, build, gain, name, untrained)


def _allowed(outputs: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """[N, P] with ``FORBIDDEN`` where a mask is 0, unless it is 0 everywhere: the game is over."""
    ends = tf.reduce_all(mask < 0.5, axis=-1, keepdims=True)
    return tf.where(ends | (mask > 0.5), outputs, FORBIDDEN)


def _mask(kind: BodyKind) -> slice:
    """Where the mask is in what a body sees."""
    end = kind.observation_space.shape[0]
    return slice(end - distribution_for(kind.action_space).parameter_count, end)
