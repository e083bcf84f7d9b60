"""The interface of an algorithm; no other module knows how it learns."""

import abc
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from agents import AgentOutput, Heads
from algorithms.trajectory import Unroll


class Loss(NamedTuple):
    """The loss of a batch, or of a piece of one."""

    total: tf.Tensor  # []: to be minimised, a mean over real transitions
    weights: tf.Tensor  # [T, B]: how much each transition counts, 0 for resets
    figures: dict[str, tf.Tensor]  # [] each, by the names in the settings' ``figures``
    samples: dict[str, tf.Tensor]  # [T, B] each, by the names of ``Algorithm.samples``
    sums: tf.Tensor  # input of ``after_update``, summed over pieces and learners


class Algorithm(abc.ABC):
    """The base class of algorithms. A process that only acts never calls ``start``.

    An algorithm's settings declare the figures that it reports and how batches are fed, see
    ``AlgorithmSettings``.
    """

    # Shown as histograms by TensorBoard. An algorithm that learns from a replay has ``error`` among
    # them: how far off each transition was, from 0. Of that, the priorities of windows are made.
    samples: tuple[str, ...] = ()
    heads = Heads()  # the outputs that it needs of an agent
    records: tuple[str, ...] = ("log_prob",)  # values that ``act`` records with each action
    copies = ""  # begins the names of kept variables that ``take_over`` makes of the weights
    explores = False  # whether ``act`` takes the chances of ``exploration``
    # After so many steps without a reward, environments hold random actions; 0: never. They have
    # the ``log_prob`` of a uniform policy, which the algorithm is to correct for.
    holds_after = 0

    def __init__(self, settings: Any, levels: int):
        """``settings`` are the algorithm's own; ``levels`` is the run's number of levels."""
        self.settings = settings
        self.levels = levels

    def act(
        self, agent: Any, output: AgentOutput, seed: tf.Tensor, greedy: bool = False
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """Actions [B, ...] for a row of an agent's output, and values to record with them, [B]."""
        distribution = agent.distribution
        policy = output.policy
        action = distribution.mode(policy) if greedy else distribution.sample(policy, seed)
        return action, {"log_prob": distribution.log_prob(policy, action)}

    def shown(self, output: AgentOutput) -> AgentOutput:
        """A row's output as people see it: in ``baseline`` the row's value."""
        return output

    def exploration(self, updates: int, places: np.ndarray) -> np.ndarray:
        """[B]: the chance of a random action, in environments at these places from 0 to 1."""
        return np.zeros_like(places)

    def start(self, agent: Any) -> None:  # noqa: B027 (optional)
        """Creates the variables that a learner keeps besides the agent's weights."""

    def advance(self, run_left: float) -> None:  # noqa: B027 (optional)
        """Called by a learner before each round: what its loss is to know of the run's progress.

        ``run_left`` falls from 1 to 0. Where actors compute gradients, they do not know it.
        """

    @property
    def kept(self) -> dict[str, tf.Variable]:
        """The variables that a checkpoint keeps besides weights and optimizer, by name."""
        return {}

    def take_over(self, kept: Mapping[str, np.ndarray]) -> None:
        """Takes what the algorithm of another run kept, where this one keeps the same.

        The agent has the weights of the other run's already.
        """
        for name, variable in self.kept.items():
            if name in kept and kept[name].shape == tuple(variable.shape):
                variable.assign(kept[name])

    def prepare(self, agent: Any, batch: Unroll) -> Any:
        """Computes, once a batch and without gradients, what ``loss`` needs: [T, B, ...] each."""
        return ()

    def batch_sums(self, batch: Unroll, prepared: Any) -> tf.Tensor | None:
        """Sums over a batch that are added up over learners for ``with_sums``; None: not needed.

        Only for algorithms whose actors play in step.
        """
        return None

    def no_batch_sums(self) -> tf.Tensor | None:
        """The ``batch_sums`` of a learner that has no batch."""
        return None

    def with_sums(self, prepared: Any, sums: tf.Tensor) -> Any:
        """``prepared``, completed by what all learners' batches have in common."""
        return prepared

    def is_enough(self, figures: Mapping[str, Any]) -> Any:
        """Whether the figures of an update advise against further updates with its batch.

        Figures are numbers, or tensors inside a graph; so is the answer, unless it is always no.
        """
        return False

    def scale_of_values(self, kept: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Factor and offset, [L] or [1], that turn an agent's values of rows into returns.

        The argument holds a checkpoint's arrays of the variables in the property ``kept``.
        """
        return np.ones(1, np.float32), np.zeros(1, np.float32)

    @abc.abstractmethod
    def loss(self, agent: Any, batch: Unroll, prepared: Any) -> Loss:
        """The loss of a batch, or of a piece of it with the same piece of ``prepared``."""

    def no_sums(self) -> tf.Tensor:
        """The sums of a learner that has no batch."""
        return tf.zeros([1])

    def after_update(self, sums: tf.Tensor) -> None:  # noqa: B027 (optional)
        """Updates the kept variables after the weights have moved; runs inside a graph."""
