"""What an algorithm says of itself, so that nobody else has to know how it learns."""

import abc
from typing import Any, NamedTuple

import tensorflow as tf

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

    Its settings are a frozen dataclass that imports no TensorFlow. They also say what learns with
    them (``implementation``) and which ``figures`` it reports.
    """

    samples: tuple[str, ...] = ()  # of which TensorBoard shows histograms
    baselines = 1  # how many values an agent gives for a row

    def __init__(self, settings: Any, levels: int):
        """``settings`` are the algorithm's own; the run plays so many levels."""
        self.settings = settings
        self.levels = levels

    def act(
        self, agent: Any, output: AgentOutput, seed: tf.Tensor, greedy: bool = False
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Actions [B, ...] for one row of an agent's output, and their log-probabilities [B]."""
        distribution = agent.distribution
        policy = output.policy
        action = distribution.mode(policy) if greedy else distribution.sample(policy, seed)
        return action, distribution.log_prob(policy, action)

    def start(self, agent: Any) -> None:  # noqa: B027 (not every algorithm keeps something)
        """Makes what a learner keeps besides the agent's weights."""

    @property
    def kept(self) -> dict[str, tf.Variable]:
        """What a checkpoint keeps besides weights and optimizer, by name."""
        return {}

    def prepare(self, agent: Any, batch: Unroll) -> Any:
        """What is computed once a batch and carries no gradient: a nest of [T, B, ...]."""
        return ()

    @abc.abstractmethod
    def loss(self, agent: Any, batch: Unroll, prepared: Any) -> Loss:
        """What to learn from a batch, or from a piece with its piece of what was prepared."""

    def no_sums(self) -> tf.Tensor:
        """The sums of a learner that has no batch."""
        return tf.zeros([1])

    def after_update(self, sums: tf.Tensor) -> None:  # noqa: B027 (nor changes it)
        """Changes what is kept, after the weights have moved; part of a graph."""
