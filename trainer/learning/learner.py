"""The learner: one update of the weights from one batch of unrolls, or from one batch per learner.

Losses are means over real transitions. When several learners train together, each contributes its
gradient times the number of its transitions, and the sum is divided by the total number. The
update is therefore the one that a single learner would make from all their unrolls. A learner
without a batch contributes nothing.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from algorithms.algorithm import Algorithm
from algorithms.trajectory import Unroll
from trainer.learning import optimizers
from trainer.learning.compiling import Compiler
from trainer.learning.contributions import Contribution, Contributions
from trainer.learning.minibatches import Passes, in_pieces
from trainer.learning.settings import LearningSettings
from trainer.team.team import ALONE, Round, Team


@dataclasses.dataclass
class Statistics:
    """What one update reports about itself, fetched from the device in one go when it is needed."""

    names: Sequence[str]
    values: Any  # [F + 1]: a figure for each name, nan if nothing taught; 1 if it was skipped
    samples: dict[str, Any]  # [T, B] each, for histograms

    @functools.cached_property
    def _fetched(self) -> np.ndarray:
        return np.asarray(self.values)

    @property
    def figures(self) -> dict[str, float]:
        """Total loss, gradient norm and what the algorithm reports."""
        return dict(zip(self.names, self._fetched.tolist(), strict=False))

    @property
    def skipped(self) -> bool:
        """Whether loss or gradients were not finite, so that nothing was changed."""
        return bool(self._fetched[-1])


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
        share: float = 1.0,
    ):
        """On a CPU, a batch is computed in ``pieces``, in parallel; a GPU takes it whole.

        ``backdrop`` is the agent's mean picture, if it is to be updated; ``share`` is what part an
        update is of all those that are made with a batch.
        """
        self.agent = agent
        self.weights = list(agent.variables)
        self.optimizer = optimizers.make(settings, list(agent.trainable_variables))
        self._backdrop, self._share = backdrop, share
        self.algorithm = algorithm
        self.algorithm.start(agent)
        self.updates = 0
        self.learning_rate = settings.learning_rate
        self._settings = settings
        self._team = team
        # In between the two halves of an update, the team sums contributions, which cannot be done
        # inside an XLA program.
        self.compiler = Compiler(settings.xla)
        self.contribution = Contributions(agent, algorithm, self.compiler, backdrop, pieces)
        self._move = self.compiler.graph(self._apply)
        self._prepare = tf.function(self._in_pieces, autograph=False)
        # In one program many small operations cost more time between them than within them, which
        # XLA spares. A single update takes as long as its call, so there it would gain nothing.
        dense = all(len(weight.shape) < 3 for weight in agent.trainable_variables)
        self._move_often = Compiler(settings.xla, on_cpu=dense).graph(self._updates)

    def prepare(self, contribution: Contribution) -> None:
        """Traces the graph of ``move`` for contributions like this; changes no variable."""
        self._move.trace(contribution, tf.constant(0.0))

    def prepare_alone(self, batch: Unroll, passes: Passes) -> None:
        """Traces the graph of ``learn_alone`` for batches of these shapes."""
        self._move_often.trace(*self._whole(batch, passes), tf.constant(0.0))

    @property
    def figures(self) -> tuple[str, ...]:
        """The names of the figures that each update reports."""
        return (*self.contribution.averaged, "gradient_norm")

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

    def learn_alone(self, batch: Unroll, passes: Passes, run_left: float) -> list[Statistics]:
        """All updates of a batch in one call, for a lone learner and minibatches of one size.

        Updates are left out once the algorithm says that it is enough.
        """
        count, values, samples = self._move_often(*self._whole(batch, passes), self._rate(run_left))
        self.updates += int(count)
        arrays = [array.numpy() for array in samples]
        return [
            Statistics(
                self.figures,
                value,
                {n: array[done] for n, array in zip(self.algorithm.samples, arrays, strict=True)},
            )
            for done, value in enumerate(values.numpy()[: int(count)])
        ]

    def _whole(self, batch: Unroll, passes: Passes) -> tuple[Unroll, Any, np.ndarray]:
        """A batch in pieces, what losses need of it, and the indices [N, size] of minibatches."""
        pieces, prepared = (batch, ()) if passes.drawn else self.rollout(batch, passes.piece_length)
        assert pieces is not None
        return pieces, prepared, np.stack([*passes.orders(passes.pieces, self.updates)])

    def _updates(
        self, pieces: Unroll, prepared: Any, indices: tf.Tensor, rate: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]:
        """How many updates were made; the values [N, F + 1] and samples [N, T, size] of all."""
        count = indices.shape[0]

        def update(
            done: tf.Tensor, _: tf.Tensor, arrays: list[tf.TensorArray]
        ) -> tuple[tf.Tensor, tf.Tensor, list[tf.TensorArray]]:
            contribution, samples = self.contribution.within(pieces, prepared, indices[done])
            value = self._apply(contribution, rate)
            named = dict(zip(self.figures, tf.unstack(value)[:-1], strict=True))
            enough = tf.convert_to_tensor(self.algorithm.is_enough(named))
            new = zip(arrays, (value, *samples), strict=True)
            return done + 1, enough, [array.write(done, one) for array, one in new]

        arrays = [tf.TensorArray(tf.float32, count) for _ in range(1 + len(self.algorithm.samples))]
        done, _, arrays = tf.while_loop(
            lambda done, enough, _: (done < count) & ~enough,
            update,
            (tf.constant(0), tf.constant(False), arrays),
            parallel_iterations=1,
        )
        values, *samples = (array.stack() for array in arrays)
        return done, values, samples

    def _rate(self, run_left: float) -> tf.Tensor:
        """The learning rate for the rest of the run that is left; remembered as a figure."""
        left = max(0.0, run_left) if self._settings.learning_rate_schedule == "linear" else 1.0
        self.learning_rate = self._settings.learning_rate * left
        return tf.constant(self.learning_rate, tf.float32)

    def _in_pieces(self, batch: Unroll, length: int) -> tuple[Unroll, Any, Any]:
        prepared = self.contribution.prepared(batch)
        sums = self.algorithm.batch_sums(batch, prepared)
        if not length:
            return batch, prepared, sums
        steps = batch.environment
        starts = range(0, batch.action.shape[0] - 1, length)
        states = self.agent.states(
            steps.observation, steps.reward, steps.first, batch.initial_state, starts
        )
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
        values = self._move(contribution, self._rate(run_left))
        self.updates += 1
        return Statistics(
            names=self.figures,
            values=values,
            samples=dict(zip(self.algorithm.samples, samples, strict=True)),
        )

    def _apply(self, contribution: Contribution, learning_rate: tf.Tensor) -> tf.Tensor:
        """Changes the weights; returns ``Statistics.values``."""
        gradients = [
            tf.math.divide_no_nan(one, contribution.count) for one in contribution.gradients
        ]
        figures = tf.math.divide_no_nan(contribution.figures, contribution.count)
        gradients, norm = optimizers.clipped(gradients, self._settings)
        seen = tf.reduce_all(tf.math.is_finite(contribution.frames))
        good = tf.math.is_finite(figures[0]) & tf.math.is_finite(norm) & seen

        def apply() -> tf.Tensor:
            self.optimizer.apply(gradients, learning_rate)
            self.algorithm.after_update(contribution.sums)
            if self._backdrop:
                self._backdrop.update(contribution.frames, self._share)
            return tf.constant(True)

        # Nothing but beginnings of episodes, or rows that do not count, teaches nothing.
        teaches = contribution.count > 0
        tf.cond(good & teaches, apply, lambda: tf.constant(False))
        told = tf.concat([figures, [norm]], axis=0)
        told = tf.where(teaches, told, np.nan)  # left out of means
        return tf.concat([told, [1.0 - tf.cast(good, tf.float32)]], axis=0)


def named(variables: Sequence[tf.Variable]) -> dict[str, tf.Variable]:
    """Variables by their names; those of one name are numbered."""
    found: dict[str, tf.Variable] = {}
    for variable in variables:
        name = variable.name.removesuffix(":0")
        alike = sum(other.rpartition("#")[0] == name or other == name for other in found)
        found[f"{name}#{alike + 1}" if alike else name] = variable
    return found
