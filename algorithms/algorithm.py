"""What an algorithm says of itself, so that nobody else has to know how it learns."""

import abc
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from agents import Heads
from algorithms.trajectory import AgentOutput, Unroll


class Loss(NamedTuple):
    """What a batch, or a piece of one, is to be learned from."""

    total: tf.Tensor  # []: what is minimised, a mean over real transitions
    weights: tf.Tensor  # [T, B]: how much each transition counts, 0 for resets
    figures: dict[str, tf.Tensor]  # [] each, by the names in the settings' ``figures``
    samples: dict[str, tf.Tensor]  # [T, B] each, by the names of ``Algorithm.samples``
    sums: tf.Tensor  # what ``after_update`` is given; that of pieces and learners adds up


class Algorithm(abc.ABC):
    """One way to learn. A process that only acts never calls ``start``.

    What else an algorithm says is in its settings, see ``AlgorithmSettings``: which figures it
    reports, and how batches are fed.
    """

    samples: tuple[str, ...] = ()  # of which TensorBoard shows histograms
    heads = Heads()  # what an agent gives for each row
    records: tuple[str, ...] = ("log_prob",)  # what ``act`` notes of each action

    def __init__(self, settings: Any, levels: int):
        """``settings`` are the algorithm's own; the run plays so many levels."""
        self.settings = settings
        self.levels = levels

    def act(
        self, agent: Any, output: AgentOutput, seed: tf.Tensor, greedy: bool = False
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """Actions [B, ...] for a row of an agent's output, and what is noted of them, [B] each."""
        distribution = agent.distribution
        policy = output.policy
        action = distribution.mode(policy) if greedy else distribution.sample(policy, seed)
        return action, {"log_prob": distribution.log_prob(policy, action)}

    def start(self, agent: Any) -> None:  # noqa: B027 (not every algorithm keeps something)
        """Makes what a learner keeps besides the agent's weights."""

    @property
    def kept(self) -> dict[str, tf.Variable]:
        """What a checkpoint keeps besides weights and optimizer, by name."""
        return {}

    def prepare(self, agent: Any, batch: Unroll) -> Any:
        """What is computed once a batch and carries no gradient: a nest of [T, B, ...]."""
        return ()

    def scale_of_values(self, kept: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Factor and offset, [L] or [1], from an agent's values of rows to returns.

        ``kept`` is what a checkpoint has of what the algorithm keeps.
        """
        return np.ones(1, np.float32), np.zeros(1, np.float32)

    @abc.abstractmethod
    def loss(self, agent: Any, batch: Unroll, prepared: Any) -> Loss:
        """What to learn from a batch, or from a piece with its piece of what was prepared."""

    def no_sums(self) -> tf.Tensor:
        """The sums of a learner that has no batch."""
        return tf.zeros([1])

    def after_update(self, sums: tf.Tensor) -> None:  # noqa: B027 (nor changes it)
        """Changes what is kept, after the weights have moved; part of a graph."""
