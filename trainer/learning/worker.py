"""An actor that computes gradients of what it has played, and the learner's input from such actors.

It plays with weights of its own, which change between unrolls only, so that the gradients are those
of the weights that played.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from algorithms.algorithm import Algorithm
from algorithms.feeding import Gradients
from algorithms.trajectory import MEASURED, Episodes, Unroll
from trainer.acting.acting_agent import ActingAgent
from trainer.learning import optimizers
from trainer.learning.batches import Batch, describe, unrolls_in
from trainer.learning.compiling import Compiler
from trainer.learning.contributions import Contribution, Contributions
from trainer.learning.settings import LearningSettings
from trainer.machine.graphs import QuickGraph

OF_ACTOR = np.array(-1, np.int32)


class Computed(NamedTuple):
    """What an actor sends: the gradients, and the unrolls without what only gradients need."""

    unrolls: Unroll
    contribution: Contribution
    samples: list[Any]  # [T, B] each, for histograms
    origin: Any  # int32 []: the learner that forwards them; -1 if they come from their actor

    @property
    def episodes(self) -> Episodes:
        """The episodes that ended in the unrolls."""
        return self.unrolls.episodes

    @property
    def recorded(self) -> dict[str, Any]:
        """What the level has measured."""
        return self.unrolls.recorded

    @property
    def level(self) -> Any:
        """The level of each unroll."""
        return self.unrolls.level

    @property
    def stream(self) -> Any:
        """Which environment of the run each unroll is of."""
        return self.unrolls.stream

    @property
    def number(self) -> Any:
        """How many unrolls of its environment were before each."""
        return self.unrolls.number


class Worker(ActingAgent):
    """Acts, and computes the gradients."""

    def __init__(
        self,
        agent: Any,
        algorithm: Algorithm,
        settings: LearningSettings,
        feeding: Gradients,
        backdrop: Any,
        device: str,
    ):
        """``agent`` and ``algorithm`` are like the learner's; see also ``Learner``.

        ``device`` is where it acts and computes; empty: where TensorFlow decides.
        """
        super().__init__(agent, algorithm, device)
        self._newest: tuple[Sequence[Any], int] | None = None
        self._settings = settings
        with tf.device(device or None):
            algorithm.start(agent)
            self.contributions = Contributions(agent, algorithm, Compiler("off"), backdrop)
            self._advice = (
                None
                if feeding.shared_optimizer
                else optimizers.Advice(agent.trainable_variables, settings)
            )
        self._advised: QuickGraph | None = None

    def load(self, weights: Sequence[Any], version: int) -> None:
        """Keeps weights for the next unroll; the first ones are installed at once."""
        with self._changed:
            if self._newest is None:
                super().load(weights, version)
            self._newest = weights, version
            self._changed.notify_all()

    def wait_for_other(self, version: int, timeout_s: float) -> bool:
        """Waits for other weights than these and installs them; returns False on a timeout."""
        with self._changed:
            there = self._changed.wait_for(
                lambda: self._newest is not None and self._newest[1] != version, timeout_s
            )
            newest = self._newest
        if there and newest is not None:
            super().load(*newest)
        return there

    def finish(self, unroll: Unroll) -> Computed:
        """The gradients of what was played with the weights in use."""
        with tf.device(self._device or None):  # also of the graphs that the first call makes
            contribution, samples = self.contributions(unroll)
            if self._advice is not None:
                given = (contribution.gradients, contribution.count)
                self._advised = self._advised or QuickGraph(self._advise, given)
                contribution = contribution._replace(gradients=self._advised(*given))
        return Computed(lean(unroll), contribution, samples, OF_ACTOR)

    def _advise(self, gradients: list[tf.Tensor], count: tf.Tensor) -> list[tf.Tensor]:
        """The steps that this actor's own optimizer makes of gradients, times ``count``."""
        advice = self._advice
        assert advice is not None
        means, norm = optimizers.clipped(
            [tf.math.divide_no_nan(one, count) for one in gradients], self._settings
        )
        return tf.cond(
            # An unroll that teaches nothing, as one that was thrown away, is not one of zeros.
            tf.math.is_finite(norm) & (count > 0),
            lambda: [step * count for step in advice.steps(means)],
            lambda: gradients,  # the learner skips them
        )


class GradientBatches:
    """Each block of an actor is a batch."""

    def next(self, take: Callable[[], Any]) -> Batch | None:
        """The next batch; None if ``take`` returns None."""
        block = take()
        if block is None:
            return None
        batch = describe(block.unrolls, unrolls_in(block.unrolls))
        return batch._replace(computed=(block.contribution, block.samples))


def lean(unroll: Unroll) -> Unroll:
    """An unroll without what only gradients need."""
    nothing: Any = ()
    return unroll._replace(
        environment=unroll.environment._replace(observation=nothing),
        action=nothing,
        recorded={
            name: array for name, array in unroll.recorded.items() if name.startswith(MEASURED)
        },
        initial_state=nothing,
    )


def applying(settings: LearningSettings, feeding: Any) -> LearningSettings:
    """A learner's settings: steps that actors' optimizers advise are taken as they are."""
    if isinstance(feeding, Gradients) and not feeding.shared_optimizer:
        return dataclasses.replace(settings, optimizer="sgd", gradients_clipping=0.0)
    return settings


def blank_computed(unroll: Unroll, contributions: Contributions) -> Computed:
    """What an actor sends for such unrolls, with arbitrary values."""
    contribution, samples = contributions(None)
    numbers: Any = tf.nest.map_structure(lambda one: one.numpy(), contribution)
    return Computed(
        lean(unroll), numbers, [unroll.environment.reward[1:] for _ in samples], OF_ACTOR
    )
