"""The distribution of actions of bodies that differ in what they do: each row has its kind's."""

from collections.abc import Callable, Sequence

import gymnasium as gym
import numpy as np
import tensorflow as tf

from agents.distributions import OfOneSpace, distribution_for


class OfKinds:
    """For every kind the distribution of its own actions.

    Parameters are the kind's own, zeros, and at the end a one among zeros that says which kind it
    is. Actions are the kind's own numbers, then zeros: [..., A], float32 if any is a real number.
    """

    def __init__(self, action_spaces: Sequence[gym.Space]):
        self._kinds = [_Kind(space) for space in action_spaces]
        self._room = max(kind.of.parameter_count for kind in self._kinds)
        self._numbers = max(kind.numbers for kind in self._kinds)
        self._dtype = tf.float32 if any(kind.is_real for kind in self._kinds) else tf.int32
        self.parameter_count = self._room + len(self._kinds)
        self.encoding_size = max(kind.of.encoding_size for kind in self._kinds)

    def joined(self, each: Sequence[tf.Tensor], marks: tf.Tensor) -> tf.Tensor:
        """Parameters [..., P], of those of each kind and the marks of kinds [..., K]."""
        own = chosen([padded(one, self._room) for one in each], marks)
        return tf.concat([own, marks], axis=-1)

    def sample(self, parameters: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """[..., P] and a seed [2] → [..., A]."""
        return self._actions(parameters, lambda of, own: of.sample(own, seed))

    def mode(self, parameters: tf.Tensor) -> tf.Tensor:
        """[..., P] → [..., A]."""
        return self._actions(parameters, lambda of, own: of.mode(own))

    def tempered(self, parameters: tf.Tensor, temperature: float) -> tf.Tensor:
        """Each as its kind's distribution does it."""
        each = [kind.of.tempered(kind.parameters(parameters), temperature) for kind in self._kinds]
        return self.joined(each, parameters[..., self._room :])

    def log_prob(self, parameters: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
        """[..., P] and [..., A] → [...]."""
        marks = parameters[..., self._room :]
        each = []
        for index, kind in enumerate(self._kinds):
            # Rows of other kinds get numbers that suit this one, so that none is infinite.
            here = marks[..., index : index + 1] > 0.5
            own = tf.where(here, kind.parameters(parameters), 0.0)
            taken = kind.own(tf.where(here, actions, tf.zeros_like(actions)))
            each.append(kind.of.log_prob(own, taken)[..., tf.newaxis])
        return chosen(each, marks)[..., 0]

    def entropy(self, parameters: tf.Tensor) -> tf.Tensor:
        """[..., P] → [...]."""
        marks = parameters[..., self._room :]
        each = []
        for index, kind in enumerate(self._kinds):
            here = marks[..., index : index + 1] > 0.5
            own = tf.where(here, kind.parameters(parameters), 0.0)
            each.append(kind.of.entropy(own)[..., tf.newaxis])
        return chosen(each, marks)[..., 0]

    def encode(self, actions: tf.Tensor, marks: tf.Tensor) -> tf.Tensor:
        """[..., A] and the marks of kinds [..., K] → [..., E]."""
        each = [kind.of.encode(kind.own(actions)) for kind in self._kinds]
        return chosen([padded(one, self.encoding_size) for one in each], marks)

    def _actions(
        self, parameters: tf.Tensor, choose: Callable[[OfOneSpace, tf.Tensor], tf.Tensor]
    ) -> tf.Tensor:
        each = []
        for kind in self._kinds:
            action = choose(kind.of, kind.parameters(parameters))
            flat = action if kind.has_axis else action[..., tf.newaxis]
            each.append(padded(tf.cast(flat, self._dtype), self._numbers))
        return chosen(each, parameters[..., self._room :])


class _Kind:
    """One kind's distribution, and its part of parameters and actions."""

    def __init__(self, space: gym.Space):
        self.of = distribution_for(space)
        self.numbers = int(np.prod(space.shape or ()))
        self.has_axis = bool(space.shape)
        self.is_real = isinstance(space, gym.spaces.Box)
        self._counts = np.ravel(getattr(space, "nvec", getattr(space, "n", 0)))

    def parameters(self, parameters: tf.Tensor) -> tf.Tensor:
        """[..., P] → the kind's own."""
        return parameters[..., : self.of.parameter_count]

    def own(self, actions: tf.Tensor) -> tf.Tensor:
        """[..., A] → the kind's own actions; of rows of other kinds, any that it has."""
        own = actions[..., : self.numbers]
        if not self.is_real:
            own = tf.clip_by_value(tf.cast(own, tf.int32), 0, (self._counts - 1).astype(np.int32))
        return own if self.has_axis else own[..., 0]


def chosen(each: Sequence[tf.Tensor], marks: tf.Tensor) -> tf.Tensor:
    """Of the values [..., N] for each kind, those of each row's own kind; marks [..., K]."""
    total = tf.zeros_like(each[0])
    for index, values in enumerate(each):
        total = tf.where(marks[..., index : index + 1] > 0.5, values, total)
    return total


def padded(values: tf.Tensor, size: int, with_: float = 0.0) -> tf.Tensor:
    """[..., N] → [..., size]."""
    rank, missing = len(values.shape), size - values.shape[-1]
    if not missing:
        return values
    edges = [[0, 0]] * (rank - 1) + [[0, missing]]
    return tf.pad(values, edges, constant_values=tf.cast(with_, values.dtype))
