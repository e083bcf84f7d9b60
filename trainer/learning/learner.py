"""The learner: one update of the weights from one batch of unrolls, or from one a learner.

Losses are means over real transitions. Where several learners train together, each adds its
gradient times the number of its transitions, and the sum is divided by their number: so the
update is the one that a single learner would make of all their unrolls. A learner without a
batch adds nothing. In the same way a batch may be made of pieces, each of which adds its share:
nothing in one waits for another, so TensorFlow computes them side by side, and all cores have
work even while a single operation cannot use more of them.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from algorithms.algorithm import Algorithm
from algorithms.trajectory import Unroll
from trainer.learning import optimizers
from trainer.learning.batches import cut, unrolls_in
from trainer.learning.settings import LearningSettings
from trainer.team.team import ALONE, Round, Team


class Statistics(NamedTuple):
    """What one update reports about itself."""

    figures: dict[str, Any]  # [] each: total loss, gradient norm and what the algorithm reports
    samples: dict[str, Any]  # [T, B] each, for histograms
    skipped: Any  # 1.0 where loss or gradients were not finite and the update was left out


class Share(NamedTuple):
    """What one learner's batch adds to an update; the shares of several learners add up."""

    gradients: list[tf.Tensor]  # times ``count``
    count: tf.Tensor  # real transitions, as a share of those that a batch can have
    figures: tf.Tensor  # [F], the total loss and the algorithm's figures, times ``count``
    sums: tf.Tensor  # see ``Algorithm.after_update``
    frames: tf.Tensor  # see ``Backdrop.sums``


class Learner:
    """An agent's weights and optimizer; ``update`` moves both by one batch."""

    def __init__(
        self,
        agent: Any,
        algorithm: Algorithm,
        settings: LearningSettings,
        backdrop: Any = None,
        team: Team = ALONE,
        pieces: int = 1,
    ):
        """``pieces`` of a batch are computed side by side on a processor; a GPU takes it whole.

        ``backdrop`` is the agent's mean picture, where it is to be kept up to date.
        """
        self.agent = agent
        self.weights = list(agent.variables)
        self._trained = list(agent.trainable_variables)
        self.optimizer = optimizers.make(settings, self._trained)
        self._backdrop = backdrop
        self.algorithm = algorithm
        self.algorithm.start(agent)
        self._averaged = (
            "total_loss",
            *(figure.name for figure in self.algorithm.settings.figures),
        )
        self.updates = 0
        self.learning_rate = settings.learning_rate
        self._settings = settings
        self._team = team
        self._pieces = pieces
        # On a CPU oneDNN's kernels are faster than what XLA makes of convolutions.
        self.compile(with_xla=bool(tf.config.list_physical_devices("GPU")))

    def compile(self, with_xla: bool) -> None:
        """Makes graphs of the two halves of an update.

        What the team adds up in between cannot be added up within a program of XLA.
        """
        self._with_xla = with_xla
        # Autograph rewrites every function on the way, which takes most of the time of tracing;
        # nothing here needs Python's own conditions and loops over tensors.
        self._differentiate = tf.function(self._share, autograph=False, jit_compile=with_xla)
        self._move = tf.function(self._apply, autograph=False, jit_compile=with_xla)

    def prepare(self, batch: Unroll) -> None:
        """Makes ready for batches of these shapes, whatever is in them; moves nothing."""
        share, _ = self.share(batch)
        self._move.get_concrete_function(share, np.float32(0.0))

    @property
    def figures(self) -> tuple[str, ...]:
        """The names of the figures that each update reports."""
        return (*self._averaged, "gradient_norm")

    @property
    def slots(self) -> list[tf.Variable]:
        """What a checkpoint keeps besides the weights."""
        return self.optimizer.slots + list(self.algorithm.kept.values())

    @property
    def variables(self) -> list[tf.Variable]:
        """All that an update moves."""
        return self.weights + self.slots

    def groups(self) -> dict[str, dict[str, tf.Variable]]:
        """All that an update moves by name: weights, optimizer, and what the algorithm keeps."""
        return {
            "weights": named(self.weights),
            "optimizer": named(self.optimizer.slots),
            "algorithm": self.algorithm.kept,
        }

    def restore(self, groups: Mapping[str, Mapping[str, np.ndarray]], updates: int) -> None:
        """Continues from a checkpoint's arrays, in the order of ``groups``."""
        for name, variables in self.groups().items():
            pairs = zip(variables.values(), groups[name].values(), strict=True)
            for variable, value in pairs:
                variable.assign(value)
        self.updates = updates

    def update(self, batch: Unroll | None, share_left: float) -> Statistics:
        """Trains on ``batch`` and on what the rest of the team has, be it without one of its own.

        ``share_left`` of the run is still to come (learning rate).
        """
        share, samples = self.share(batch)
        _, share = self.add_up(Round(), share)
        return self.move(share, samples, share_left)

    def share(self, batch: Unroll | None) -> tuple[Share, list[tf.Tensor]]:
        """What a batch adds to an update, and samples for histograms; nothing without a batch."""
        if batch is None:
            return self._nothing(), [tf.zeros([0])] * len(self.algorithm.samples)
        return self._differentiate(batch)

    def add_up(self, mine: Round, share: Share) -> tuple[Round, Share]:
        """The sums of what all learners say and of their shares."""
        said, exact, gradients = self._team.add_up(mine, list(share[1:]), share.gradients)
        return said, Share(gradients, *exact)

    def move(self, share: Share, samples: list[tf.Tensor], share_left: float) -> Statistics:
        """Moves the weights by the sum of all shares."""
        self.learning_rate = self._settings.learning_rate * max(0.0, share_left)
        figures, norm, skipped = self._move(share, np.float32(self.learning_rate))
        self.updates += 1
        averaged = dict(zip(self._averaged, figures, strict=True))
        return Statistics(
            figures=averaged | {"gradient_norm": norm},
            samples=dict(zip(self.algorithm.samples, samples, strict=True)),
            skipped=skipped,
        )

    def _share(self, batch: Unroll) -> tuple[Share, list[tf.Tensor]]:
        """The sum of the pieces' shares."""
        count = unrolls_in(batch)
        pieces = 1 if self._with_xla else min(self._pieces, count)
        cuts = [count * piece // pieces for piece in range(pieces + 1)]
        prepared = tf.nest.map_structure(
            tf.stop_gradient, self.algorithm.prepare(self.agent, batch)
        )

        def part(start: int, stop: int) -> tuple[Share, list[tf.Tensor]]:
            piece = tf.nest.map_structure(lambda array: array[:, start:stop], prepared)
            return self._share_of(cut(batch, start, stop), piece, (stop - start) / count)

        shares, samples = zip(
            *(part(start, stop) for start, stop in itertools.pairwise(cuts)),
            strict=True,
        )
        total = tf.nest.map_structure(lambda *each: tf.add_n(each), *shares)
        return total, [tf.concat(each, axis=1) for each in zip(*samples, strict=True)]

    def _share_of(self, piece: Unroll, prepared: Any, part: float) -> tuple[Share, list[tf.Tensor]]:
        """What a piece adds that is such a part of its batch."""
        with tf.GradientTape() as tape:
            loss = self.algorithm.loss(self.agent, piece, prepared)
            count = part * tf.reduce_mean(loss.weights)
            weighted = loss.total * count
        figures = {"total_loss": loss.total, **loss.figures}
        share = Share(
            gradients=tape.gradient(weighted, self._trained),
            count=count,
            figures=tf.stack([figures[name] for name in self._averaged]) * count,
            sums=loss.sums,
            frames=self._frame_sums(piece.environment.observation),
        )
        return share, [loss.samples[name] for name in self.algorithm.samples]

    def _nothing(self) -> Share:
        """The share of a learner that has no batch."""
        return Share(
            gradients=[tf.zeros_like(weight) for weight in self._trained],
            count=tf.zeros([]),
            figures=tf.zeros([len(self._averaged)]),
            sums=self.algorithm.no_sums(),
            frames=self._backdrop.nothing() if self._backdrop else tf.zeros([1]),
        )

    def _frame_sums(self, observation: tf.Tensor) -> tf.Tensor:
        """Of one frame of each unroll, as those that follow it hardly differ."""
        if not self._backdrop:
            return tf.zeros([1])
        return self._backdrop.sums(self.agent.prepare(observation[:1]))

    def _apply(self, share: Share, learning_rate: tf.Tensor) -> tuple[Any, tf.Tensor, tf.Tensor]:
        """Moves the weights; the averaged figures, the gradient's norm and whether it skipped."""
        gradients = [tf.math.divide_no_nan(one, share.count) for one in share.gradients]
        figures = tf.math.divide_no_nan(share.figures, share.count)
        norm = tf.linalg.global_norm(gradients)
        if self._settings.gradients_clipping > 0:
            gradients, _ = tf.clip_by_global_norm(
                gradients, self._settings.gradients_clipping, use_norm=norm
            )
        good = tf.math.is_finite(figures[0]) & tf.math.is_finite(norm)

        def apply() -> tf.Tensor:
            self.optimizer.apply(gradients, learning_rate)
            self.algorithm.after_update(share.sums)
            if self._backdrop:
                self._backdrop.update(share.frames)
            return tf.constant(True)

        tf.cond(good, apply, lambda: tf.constant(False))
        return tf.unstack(figures), norm, 1.0 - tf.cast(good, tf.float32)


def named(variables: Sequence[tf.Variable]) -> dict[str, tf.Variable]:
    """Variables by their names; those of one name are numbered."""
    found: dict[str, tf.Variable] = {}
    for variable in variables:
        name = variable.name.removesuffix(":0")
        alike = sum(other.rpartition("#")[0] == name or other == name for other in found)
        found[f"{name}#{alike + 1}" if alike else name] = variable
    return found
