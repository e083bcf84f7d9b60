"""Distributions of actions, by kind of action space.

Each reads its parameters from the last axis of the policy head's output, [..., P], and
returns one number per action, [...]. Samples are drawn from a seed tensor [2], so the same
seed gives the same actions.
"""

import math
from typing import Protocol

import gymnasium as gym
import numpy as np
import tensorflow as tf

from user_error import UserError, in_short

LOG_STD_RANGE = (-5.0, 1.0)
WIDEST_BOUNDS = 1e8  # larger bounds mean "no bounds"
FORBIDDEN = -1e9  # the logit, or the value, of an action that is not to be chosen


class Distribution(Protocol):
    """The interface of a distribution of actions."""

    parameter_count: int  # P: how many outputs the policy head has

    def sample(self, parameters: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """[..., P] and a seed [2] → actions [...] + the action's own shape."""

    def mode(self, parameters: tf.Tensor) -> tf.Tensor:
        """[..., P] → the likeliest actions."""

    def tempered(self, parameters: tf.Tensor, temperature: float) -> tf.Tensor:
        """[..., P] → [..., P] of a distribution that is sharper below 1 and flatter above."""

    def log_prob(self, parameters: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
        """[..., P] and actions → the logarithm of their probability or density, [...]."""

    def entropy(self, parameters: tf.Tensor) -> tf.Tensor:
        """[..., P] → [...], in nats."""


class OfOneSpace(Distribution, Protocol):
    """One of the actions of a single space."""

    encoding_size: int  # E: how many numbers `encode` makes of an action

    def untrained(self, deviation: float) -> np.ndarray:
        """[P], to start from: choices alike, numbers with means of 0 and this deviation."""

    def encode(self, actions: tf.Tensor) -> tf.Tensor:
        """Actions → [..., E] float32, the form in which an agent's network gets its last action."""


class Categorical:
    """One of `count` actions; parameters are logits, actions int32 from 0."""

    def __init__(self, count: int):
        self.parameter_count = self.encoding_size = count

    def untrained(self, deviation: float) -> np.ndarray:
        """[P] of zeros."""
        return np.zeros(self.parameter_count)

    def sample(self, parameters: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """[..., P] → [...] int32."""
        return self.mode(parameters + _gumbel(tf.shape(parameters), seed))

    def mode(self, parameters: tf.Tensor) -> tf.Tensor:
        """[..., P] → [...] int32."""
        return tf.argmax(parameters, axis=-1, output_type=tf.int32)

    def tempered(self, parameters: tf.Tensor, temperature: float) -> tf.Tensor:
        """Logits divided by the temperature."""
        return parameters / temperature

    def log_prob(self, parameters: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
        """[..., P] and [...] integers → [...]."""
        return -tf.nn.sparse_softmax_cross_entropy_with_logits(labels=actions, logits=parameters)

    def entropy(self, parameters: tf.Tensor) -> tf.Tensor:
        """[..., P] → [...]."""
        log_probabilities = tf.nn.log_softmax(parameters)
        return -tf.reduce_sum(tf.exp(log_probabilities) * log_probabilities, axis=-1)

    def encode(self, actions: tf.Tensor) -> tf.Tensor:
        """[...] integers → one-hot [..., P]."""
        return tf.one_hot(actions, self.parameter_count)


class MultiCategorical:
    """Several independent choices at once; actions [..., len(counts)] int32 from 0."""

    def __init__(self, counts: list[int]):
        self._counts = counts
        self._parts = [Categorical(count) for count in counts]
        self.parameter_count = self.encoding_size = sum(counts)

    def untrained(self, deviation: float) -> np.ndarray:
        """[P] of zeros."""
        return np.zeros(self.parameter_count)

    def sample(self, parameters: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """[..., P] → [..., choices] int32."""
        return self.mode(parameters + _gumbel(tf.shape(parameters), seed))

    def mode(self, parameters: tf.Tensor) -> tf.Tensor:
        """[..., P] → [..., choices] int32."""
        pairs = zip(self._parts, self._split(parameters), strict=True)
        return tf.stack([part.mode(logits) for part, logits in pairs], axis=-1)

    def tempered(self, parameters: tf.Tensor, temperature: float) -> tf.Tensor:
        """Logits divided by the temperature."""
        return parameters / temperature

    def log_prob(self, parameters: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
        """[..., P] and [..., choices] integers → [...]."""
        choices = tf.unstack(actions, len(self._parts), axis=-1)
        triples = zip(self._parts, self._split(parameters), choices, strict=True)
        return tf.add_n([part.log_prob(logits, choice) for part, logits, choice in triples])

    def entropy(self, parameters: tf.Tensor) -> tf.Tensor:
        """[..., P] → [...]."""
        pairs = zip(self._parts, self._split(parameters), strict=True)
        return tf.add_n([part.entropy(logits) for part, logits in pairs])

    def encode(self, actions: tf.Tensor) -> tf.Tensor:
        """[..., choices] integers → their one-hots, joined: [..., P]."""
        choices = tf.unstack(actions, len(self._parts), axis=-1)
        pairs = zip(self._parts, choices, strict=True)
        return tf.concat([part.encode(choice) for part, choice in pairs], axis=-1)

    def _split(self, parameters: tf.Tensor) -> list[tf.Tensor]:
        return tf.split(parameters, self._counts, axis=-1)


class DiagonalGaussian:
    """Real numbers, each with a mean and a log standard deviation of its own.

    Parameters are in units of the Box: mean 0 is its centre, a deviation of 1 half its range
    (where it has no bounds: 0 and 1). Samples are in the environment's units and may lie
    outside the bounds; the environment clips them, and the density is that of the sample.
    """

    def __init__(self, space: gym.spaces.Box):
        low = np.asarray(space.low, np.float32).reshape(-1)
        high = np.asarray(space.high, np.float32).reshape(-1)
        bounded = (np.abs(low) < WIDEST_BOUNDS) & (np.abs(high) < WIDEST_BOUNDS) & (low < high)
        self._low, self._high = low, high
        low, high = np.where(bounded, low, -1), np.where(bounded, high, 1)
        self._centre, self._half_range = low / 2 + high / 2, high / 2 - low / 2
        self._shape = list(space.shape)
        self.encoding_size = len(low)
        self.parameter_count = 2 * len(low)

    def untrained(self, deviation: float) -> np.ndarray:
        """[P]: means of 0, and the deviation's logarithm."""
        return np.repeat([0.0, math.log(deviation)], self.encoding_size)

    def sample(self, parameters: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """[..., P] → [...] + the Box's shape, float32."""
        mean, log_std = self._split(parameters)
        noise = tf.random.stateless_normal(tf.shape(mean), seed)
        return self._to_actions(mean + tf.exp(log_std) * noise)

    def mode(self, parameters: tf.Tensor) -> tf.Tensor:
        """[..., P] → [...] + the Box's shape, float32."""
        return self._to_actions(self._split(parameters)[0])

    def tempered(self, parameters: tf.Tensor, temperature: float) -> tf.Tensor:
        """Deviations multiplied by the temperature."""
        mean, log_std = self._split(parameters)
        return tf.concat([mean, log_std + math.log(temperature)], axis=-1)

    def log_prob(self, parameters: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
        """[..., P] and actions → [...], a density in the environment's units."""
        mean, log_std = self._split(parameters)
        distance = (self._flat(actions) - self._centre) / self._half_range - mean
        deviations = distance * tf.exp(-log_std)
        constant = math.log(2 * math.pi) / 2 + np.log(self._half_range)
        return -tf.reduce_sum(tf.square(deviations) / 2 + log_std + constant, axis=-1)

    def entropy(self, parameters: tf.Tensor) -> tf.Tensor:
        """[..., P] → [...], of the density in the environment's units."""
        log_std = self._split(parameters)[1]
        constant = (1 + math.log(2 * math.pi)) / 2 + np.log(self._half_range)
        return tf.reduce_sum(log_std + constant, axis=-1)

    def encode(self, actions: tf.Tensor) -> tf.Tensor:
        """Actions → [..., E] as the environment applied them, bounds at -1 and 1."""
        applied = tf.clip_by_value(self._flat(actions), self._low, self._high)
        return (applied - self._centre) / self._half_range

    def _split(self, parameters: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        mean, log_std = tf.split(parameters, 2, axis=-1)
        return mean, tf.clip_by_value(log_std, *LOG_STD_RANGE)

    def _to_actions(self, relative: tf.Tensor) -> tf.Tensor:
        flat = self._centre + self._half_range * relative
        return tf.reshape(flat, tf.concat([tf.shape(flat)[:-1], self._shape], axis=0))

    def _flat(self, actions: tf.Tensor) -> tf.Tensor:
        leading = tf.shape(actions)[: len(actions.shape) - len(self._shape)]
        return tf.reshape(actions, tf.concat([leading, [self.encoding_size]], axis=0))


def distribution_for(action_space: gym.Space) -> OfOneSpace:
    """The distribution that can choose this space's actions."""
    if isinstance(action_space, gym.spaces.Discrete):
        return Categorical(int(action_space.n))
    if isinstance(action_space, gym.spaces.MultiDiscrete) and action_space.nvec.ndim == 1:
        return MultiCategorical([int(count) for count in action_space.nvec])
    if isinstance(action_space, gym.spaces.Box) and action_space.dtype.kind == "f":
        return DiagonalGaussian(action_space)
    raise UserError(
        f"the level's actions are {in_short(action_space)}; agents support Discrete, MultiDiscrete "
        "(one row) and Box (of floats)."
    )


def _gumbel(shape: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Noise whose sum with logits is largest at index i with probability softmax(logits)[i]."""
    tiny = np.finfo(np.float32).tiny  # so that no logarithm gets 0
    uniform = tf.random.stateless_uniform(shape, seed, minval=tiny, maxval=1.0)
    return -tf.math.log(-tf.math.log(uniform))
