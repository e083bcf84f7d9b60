"""The learner: one update of the weights from one batch of unrolls, or from one batch per learner.

Losses are means over real transitions. When several learners train together, each contributes its
gradient times the number of its transitions, and the sum is divided by the total number. The
update is therefore the one that a single learner would make from all their unrolls. A learner
without a batch contributes nothing. A batch may be cut into pieces in the same way: the pieces do
not depend on each other, so TensorFlow computes them in parallel, and all cores have work even
when a single operation cannot use more of them.
"""

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from algorithms.algorithm import Algorithm
from algorithms.trajectory import Unroll
from trainer.learning import optimizers
from trainer.learning.batches import cut, unrolls_in
from trainer.learning.minibatches import chosen, in_pieces
from trainer.learning.settings import LearningSettings
from trainer.machine.gpus import visible_gpus
from trainer.machine.terminal import say
from trainer.team.team import ALONE, Round, Team
from user_error import UserError

XLA_FAILURES = (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError,
                tf.errors.InternalError, tf.errors.NotFoundError)  # fmt: skip


@dataclasses.dataclass
class Statistics:
    """What one update reports about itself, fetched from the device in one go when it is needed."""

    names: Sequence[str]
    values: tf.Tensor  # [F + 1]: a figure for each name, then 1 if the update was skipped
    samples: dict[str, Any]  # [T, B] each, for histograms

    @functools.cached_property
    def _fetched(self) -> np.ndarray:
        return self.values.numpy()

    @property
    def figures(self) -> dict[str, float]:
        """Total loss, gradient norm and what the algorithm reports."""
        return dict(zip(self.names, self._fetched.tolist(), strict=False))

    @property
    def skipped(self) -> bool:
        """Whether loss or gradients were not finite, so that nothing was changed."""
        return bool(self._fetched[-1])


class Contribution(NamedTuple):
    """What one learner's batch adds to an update; those of several learners are summed."""

    gradients: list[tf.Tensor]  # times ``count``
    count: tf.Tensor  # real transitions, as a fraction of those that a batch can have
    figures: tf.Tensor  # [F], the total loss and the algorithm's figures, times ``count``
    sums: tf.Tensor  # see ``Algorithm.after_update``
    frames: tf.Tensor  # see ``Backdrop.sums``


class Learner:
    """An agent's weights and optimizer; ``update`` trains both on one batch."""

    def __init__(
        self,
        agent: Any,
        algorithm: Algorithm,
        settings: LearningSettings,
        backdrop: Any = None,
        team: Team = ALONE,
        pieces: int = 1,
    ):
        """On a CPU, a batch is computed in ``pieces``, in parallel; a GPU takes it whole.

        ``backdrop`` is the agent's mean picture, if it is to be updated.
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
        on_gpu = bool(visible_gpus())
        self.compile(with_xla=on_gpu if settings.xla == "auto" else settings.xla == "on")

    def compile(self, with_xla: bool) -> None:
        """Makes graphs of the two halves of an update.

        In between, the team sums contributions, which cannot be done inside an XLA program.
        """
        self._with_xla = with_xla
        # Autograph would rewrite every function, which takes most of the tracing time. Nothing here
        # uses Python conditions or loops over tensors.
        self._differentiate = tf.function(self._contribution, autograph=False, jit_compile=with_xla)
        self._prepare = tf.function(self._in_pieces, autograph=False)
        self._choose = tf.function(chosen, autograph=False)
        self._move = tf.function(self._apply, autograph=False, jit_compile=with_xla)

    def prepare(self, batch: Unroll) -> None:
        """Traces the graphs for batches of these shapes; changes no variable."""
        contribution, _ = self.contribution(batch)
        self._move.get_concrete_function(contribution, np.float32(0.0))

    @property
    def figures(self) -> tuple[str, ...]:
        """The names of the figures that each update reports."""
        return (*self._averaged, "gradient_norm")

    @property
    def slots(self) -> list[tf.Variable]:
        """The variables that a checkpoint keeps besides the weights."""
        return self.optimizer.slots + list(self.algorithm.kept.values())

    @property
    def variables(self) -> list[tf.Variable]:
        """All variables that an update changes."""
        return self.weights + self.slots

    def groups(self) -> dict[str, dict[str, tf.Variable]]:
        """The same by name, in groups: weights, optimizer, and what the algorithm keeps."""
        return {
            "weights": named(self.weights),
            "optimizer": named(self.optimizer.slots),
            "algorithm": self.algorithm.kept,
        }

    def restore(self, groups: Mapping[str, Mapping[str, np.ndarray]], updates: int) -> None:
        """Continues from a checkpoint's arrays, in the order of ``groups``; some may be missing."""
        for name, arrays in groups.items():
            pairs = zip(self.groups()[name].values(), arrays.values(), strict=True)
            for variable, value in pairs:
                variable.assign(value)
        self.updates = updates

    def update(self, batch: Unroll | None, run_left: float) -> Statistics:
        """Trains on ``batch``, if there is one, and on the batches of the rest of the team.

        ``run_left`` is the fraction of the run that is still to come; the learning rate may follow.
        """
        contribution, samples = self.contribution(batch)
        _, contribution = self.add_up(Round(), contribution)
        return self.move(contribution, samples, run_left)

    def contribution(
        self, batch: Unroll | None, prepared: Any = None
    ) -> tuple[Contribution, list[tf.Tensor]]:
        """What a batch adds to an update, and samples for histograms; zeros without a batch.

        ``prepared`` comes from ``rollout``; None for a batch that is learned from only once.
        """
        if batch is None:
            return self._nothing(), [tf.zeros([0])] * len(self.algorithm.samples)
        return self._compiled("_differentiate", batch, prepared)

    def rollout(self, batch: Unroll | None, length: int) -> tuple[Unroll | None, Any]:
        """A batch in pieces of ``length`` steps, 0 for whole unrolls, and what losses need of it.

        All learners of a team call it together, those without a batch, too.
        """
        pieces, prepared, sums = None, None, self.algorithm.no_batch_sums()
        if batch is not None:
            pieces, prepared, sums = self._prepare(batch, length)
        if sums is not None:
            _, (sums,), _ = self._team.add_up(Round(), [sums], [])
            if batch is not None:
                prepared = self.algorithm.with_sums(prepared, sums)
        return pieces, prepared

    def choose(self, pieces: Unroll | None, prepared: Any, indices: np.ndarray) -> tuple[Any, Any]:
        """A minibatch of a rollout."""
        if pieces is None:
            return None, None
        return self._choose(pieces, prepared, indices)

    def _in_pieces(self, batch: Unroll, length: int) -> tuple[Unroll, Any, Any]:
        prepared = tf.nest.map_structure(
            tf.stop_gradient, self.algorithm.prepare(self.agent, batch)
        )
        sums = self.algorithm.batch_sums(batch, prepared)
        if not length:
            return batch, prepared, sums
        steps = batch.environment
        starts = range(0, batch.action.shape[0] - 1, length)
        states = self.agent.states(steps.observation, steps.first, batch.initial_state, starts)
        return *in_pieces(batch, prepared, states, length), sums

    def add_up(self, mine: Round, contribution: Contribution) -> tuple[Round, Contribution]:
        """The sums of all learners' messages and contributions."""
        round, exact, gradients = self._team.add_up(
            mine, list(contribution[1:]), contribution.gradients
        )
        return round, Contribution(gradients, *exact)

    def move(
        self, contribution: Contribution, samples: list[tf.Tensor], run_left: float
    ) -> Statistics:
        """Moves the weights by the sum of all contributions."""
        left = max(0.0, run_left) if self._settings.learning_rate_schedule == "linear" else 1.0
        self.learning_rate = self._settings.learning_rate * left
        values = self._compiled("_move", contribution, np.float32(self.learning_rate))
        self.updates += 1
        return Statistics(
            names=self.figures,
            values=values,
            samples=dict(zip(self.algorithm.samples, samples, strict=True)),
        )

    def _compiled(self, half: str, *arguments: Any) -> Any:
        """Calls one half of an update; without XLA from the time when XLA cannot compile it."""
        try:
            return getattr(self, half)(*arguments)
        except XLA_FAILURES as error:
            if not self._with_xla or self._settings.xla == "on":
                raise
            reason = " ".join(str(error).split())[:200]
            say(f"warning: XLA cannot compile updates, so they run without it: {reason}")
            self.compile(with_xla=False)
            return getattr(self, half)(*arguments)

    def _contribution(
        self, batch: Unroll, prepared: Any = None
    ) -> tuple[Contribution, list[tf.Tensor]]:
        """The sum of the pieces' contributions."""
        count = unrolls_in(batch)
        pieces = 1 if self._with_xla else min(self._pieces, count)
        cuts = [count * piece // pieces for piece in range(pieces + 1)]
        if prepared is None:
            prepared = tf.nest.map_structure(
                tf.stop_gradient, self.algorithm.prepare(self.agent, batch)
            )

        def part(start: int, stop: int) -> tuple[Contribution, list[tf.Tensor]]:
            piece = tf.nest.map_structure(lambda array: array[:, start:stop], prepared)
            return self._contribution_of(cut(batch, start, stop), piece, (stop - start) / count)

        contributions, samples = zip(
            *(part(start, stop) for start, stop in itertools.pairwise(cuts)),
            strict=True,
        )
        total = tf.nest.map_structure(lambda *each: tf.add_n(each), *contributions)
        return total, [tf.concat(each, axis=1) for each in zip(*samples, strict=True)]

    def _contribution_of(
        self, piece: Unroll, prepared: Any, part: float
    ) -> tuple[Contribution, list[tf.Tensor]]:
        """What a piece adds; ``part`` is the fraction of the batch that it is."""
        with tf.GradientTape() as tape:
            loss = self.algorithm.loss(self.agent, piece, prepared)
            count = part * tf.reduce_mean(loss.weights)
            weighted = loss.total * count
        figures = {"total_loss": loss.total, **loss.figures}
        contribution = Contribution(
            gradients=self._all_of(tape.gradient(weighted, self._trained)),
            count=count,
            figures=tf.stack([figures[name] for name in self._averaged]) * count,
            sums=loss.sums,
            frames=self._frame_sums(piece.environment.observation),
        )
        return contribution, [loss.samples[name] for name in self.algorithm.samples]

    def _all_of(self, gradients: list[tf.Tensor | None]) -> list[tf.Tensor]:
        """The gradients, where there is one for each weight."""
        there = [gradient for gradient in gradients if gradient is not None]
        if len(there) < len(gradients):
            unused = [w.name for w, g in zip(self._trained, gradients, strict=True) if g is None]
            raise UserError(
                f"the loss does not depend on {', '.join(unused)}, although the agent lists it "
                "as trainable: use it in the agent's output, or create it with trainable=False."
            )
        return there

    def _nothing(self) -> Contribution:
        """The contribution of a learner that has no batch."""
        return Contribution(
            gradients=[tf.zeros_like(weight) for weight in self._trained],
            count=tf.zeros([]),
            figures=tf.zeros([len(self._averaged)]),
            sums=self.algorithm.no_sums(),
            frames=self._backdrop.nothing() if self._backdrop else tf.zeros([1]),
        )

    def _frame_sums(self, observation: tf.Tensor) -> tf.Tensor:
        """Sums over one frame of each unroll, because the frames after it hardly differ."""
        if not self._backdrop:
            return tf.zeros([1])
        return self._backdrop.sums(self.agent.prepare(observation[:1]))

    def _apply(self, contribution: Contribution, learning_rate: tf.Tensor) -> tf.Tensor:
        """Changes the weights; returns ``Statistics.values``."""
        gradients = [
            tf.math.divide_no_nan(one, contribution.count) for one in contribution.gradients
        ]
        figures = tf.math.divide_no_nan(contribution.figures, contribution.count)
        norm = tf.linalg.global_norm(gradients)
        if self._settings.gradients_clipping > 0:
            gradients, _ = tf.clip_by_global_norm(
                gradients, self._settings.gradients_clipping, use_norm=norm
            )
        seen = tf.reduce_all(tf.math.is_finite(contribution.frames))
        good = tf.math.is_finite(figures[0]) & tf.math.is_finite(norm) & seen

        def apply() -> tf.Tensor:
            self.optimizer.apply(gradients, learning_rate)
            self.algorithm.after_update(contribution.sums)
            if self._backdrop:
                self._backdrop.update(contribution.frames)
            return tf.constant(True)

        tf.cond(good, apply, lambda: tf.constant(False))
        return tf.concat([figures, [norm, 1.0 - tf.cast(good, tf.float32)]], axis=0)


def named(variables: Sequence[tf.Variable]) -> dict[str, tf.Variable]:
    """Variables by their names; those of one name are numbered."""
    found: dict[str, tf.Variable] = {}
    for variable in variables:
        name = variable.name.removesuffix(":0")
        alike = sum(other.rpartition("#")[0] == name or other == name for other in found)
        found[f"{name}#{alike + 1}" if alike else name] = variable
    return found
