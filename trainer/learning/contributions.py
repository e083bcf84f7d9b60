"""The differentiating half of an update: what a batch of unrolls adds to it.

A batch may be cut into pieces that do not depend on each other, so TensorFlow computes them in
parallel, and all cores have work even when a single operation cannot use more of them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from agents import gather
from algorithms.algorithm import Algorithm
from algorithms.feeding import InStep
from algorithms.trajectory import Unroll
from trainer.learning.batches import cut, unrolls_in
from trainer.learning.compiling import Compiler
from trainer.learning.minibatches import chosen
from user_error import UserError

# Batches of whole episodes have any number of steps; they count as fractions of this one.
STEPS_OF_ANY = 1000.0


class Contribution(NamedTuple):
    """What one batch adds to an update; those of several learners are summed."""

    gradients: list[tf.Tensor]  # times ``count``
    count: tf.Tensor  # real transitions, as a fraction of those that a usual batch can have
    figures: tf.Tensor  # [F], the total loss and the algorithm's figures, times ``count``
    sums: tf.Tensor  # see ``Algorithm.after_update``
    frames: tf.Tensor  # see ``Backdrop.sums``


class Contributions:
    """Computes contributions with an agent's weights."""

    def __init__(
        self,
        agent: Any,
        algorithm: Algorithm,
        compiler: Compiler,
        backdrop: Any,
        pieces: int = 1,
    ):
        """On a CPU, a batch is computed in ``pieces``, in parallel; a GPU takes it whole.

        ``backdrop`` is the agent's mean picture, if it is to be updated.
        """
        self._agent = agent
        self._algorithm = algorithm
        self._backdrop = backdrop
        self._compiler = compiler
        self._pieces = pieces
        self._trained = list(agent.trainable_variables)
        feeding = algorithm.settings.feeding
        self._any_size = isinstance(feeding, InStep) and feeding.whole_episodes
        self.averaged = ("total_loss", *(figure.name for figure in algorithm.settings.figures))
        self._differentiate = compiler.graph(self._contribution)
        self._differentiate_some = compiler.graph(self.within)

    def __call__(
        self, batch: Unroll | None, prepared: Any = None
    ) -> tuple[Contribution, list[tf.Tensor]]:
        """What a batch adds to an update, and samples for histograms; zeros without a batch.

        ``prepared`` is the algorithm's for this batch; None to compute it.
        """
        if batch is None:
            return self.nothing(), [tf.zeros([0])] * len(self._algorithm.samples)
        # A graph's arguments are arrays only.
        return self._differentiate(*((batch,) if prepared is None else (batch, prepared)))

    def of_some(
        self, pieces: Unroll | None, prepared: Any, indices: np.ndarray
    ) -> tuple[Contribution, list[tf.Tensor]]:
        """The same for a minibatch of a rollout's pieces."""
        if pieces is None:
            return self(None)
        return self._differentiate_some(pieces, prepared, indices)

    def within(
        self, pieces: Unroll, prepared: Any, indices: tf.Tensor
    ) -> tuple[Contribution, list[tf.Tensor]]:
        """The same inside a graph; without anything ``prepared``, that is done here."""
        some, already = chosen(pieces, prepared, indices)
        return self._contribution(some, already if tf.nest.flatten(already) else None)

    def _contribution(
        self, batch: Unroll, prepared: Any = None
    ) -> tuple[Contribution, list[tf.Tensor]]:
        """The sum of the pieces' contributions."""
        count = unrolls_in(batch)
        usual = count * (batch.action.shape[0] - 1) / STEPS_OF_ANY if self._any_size else 1.0
        if prepared is None:
            prepared = self.prepared(batch)

        # Pieces of one size share a graph, which is traced once.
        of_piece = tf.function(self._contribution_of, autograph=False)

        def part(start: int, stop: int) -> tuple[Contribution, list[tf.Tensor]]:
            piece = tf.nest.map_structure(lambda array: array[:, start:stop], prepared)
            share = usual * (stop - start) / count
            return of_piece(cut(batch, start, stop), piece, share)

        contributions, samples = zip(
            *(part(start, stop) for start, stop in self._cuts(count)),
            strict=True,
        )
        total = tf.nest.map_structure(lambda *each: tf.add_n(each), *contributions)
        return total, [tf.concat(each, axis=1) for each in zip(*samples, strict=True)]

    def prepared(self, batch: Unroll) -> Any:
        """What losses need of a batch, which is computed in pieces, too."""
        parts = [
            self._algorithm.prepare(self._agent, cut(batch, start, stop))
            for start, stop in self._cuts(unrolls_in(batch))
        ]
        return tf.nest.map_structure(
            lambda *each: tf.stop_gradient(tf.concat(each, axis=1)), *parts
        )

    def _cuts(self, count: int) -> list[tuple[int, int]]:
        """Where the pieces of so many unrolls begin and end."""
        pieces = 1 if self._compiler.with_xla else min(self._pieces, count)
        return [(count * piece // pieces, count * (piece + 1) // pieces) for piece in range(pieces)]

    def _contribution_of(
        self, piece: Unroll, prepared: Any, part: float
    ) -> tuple[Contribution, list[tf.Tensor]]:
        """What a piece adds; ``part`` is the fraction of a usual batch that it is."""
        with tf.GradientTape() as tape:
            loss = self._algorithm.loss(self._agent, piece, prepared)
            count = part * tf.reduce_mean(loss.weights)
            weighted = loss.total * count
        given = {"total_loss": loss.total, **loss.figures}
        contribution = Contribution(
            gradients=self._all_of(tape.gradient(weighted, self._trained)),
            count=count,
            figures=tf.stack(self._named("figures", self.averaged, given)) * count,
            sums=loss.sums,
            frames=self._frame_sums(piece),
        )
        return contribution, self._named("samples", self._algorithm.samples, loss.samples)

    @staticmethod
    def _named(what: str, names: Sequence[str], given: Mapping[str, Any]) -> list[Any]:
        """What a loss gives by these names; an error if one of one's own leaves some out."""
        missing = [name for name in names if name not in given]
        if missing:
            raise UserError(
                f"--algorithm: its loss gives no {', '.join(missing)} in `{what}`, where it names "
                "them. Return them with each loss, or leave out their names."
            )
        return [given[name] for name in names]

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

    def nothing(self) -> Contribution:
        """The contribution of a learner that has no batch."""
        return Contribution(
            gradients=[tf.zeros_like(weight) for weight in self._trained],
            count=tf.zeros([]),
            figures=tf.zeros([len(self.averaged)]),
            sums=self._algorithm.no_sums(),
            frames=self._backdrop.nothing() if self._backdrop else tf.zeros([1]),
        )

    def _frame_sums(self, piece: Unroll) -> tf.Tensor:
        """Sums over one frame of each unroll, because the frames beside it hardly differ.

        Each unroll of an environment has it in the row after that of the one before. The same row
        may always be the same moment of episodes, where all of them are equally long.
        """
        if not self._backdrop:
            return tf.zeros([1])
        rows, count = piece.action.shape[:2]
        places = piece.number % (rows - 1) * count + tf.range(count)

        def shown(array: tf.Tensor, later: int = 0) -> tf.Tensor:
            return gather(tf.reshape(array, [-1, *array.shape[2:]]), places + later * count)

        step = piece.environment
        # Nobody plays where an environment or a body is not there: then each row is a reset.
        there = ~(shown(step.first) & shown(step.first, later=1))
        return self._backdrop.sums(self._agent.prepare(shown(step.observation)[tf.newaxis]), there)
