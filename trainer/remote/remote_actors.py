"""A learner's actors in other processes: batches are made before the learner asks for them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from trainer.learning.ahead import BatchesAhead, on_device
from trainer.learning.batches import LOOK_EVERY_S, Batch
from trainer.learning.learner import Learner
from trainer.learning.replayed import Feeder, ReplayedBatches
from trainer.learning.rollouts import Crew, Rollouts
from trainer.reporting.metrics import EndedEpisodes
from transport import Receiver


def ignore(block: Any) -> None:
    """Does nothing with a block."""


class RemoteActors:
    """Takes unrolls from a receiver; a thread joins the next batch during an update."""

    def __init__(
        self,
        receiver: Receiver,
        agent: Any,
        make_batches: Callable[[Crew], Feeder],
        received: Callable[[Any], None] = ignore,
        bodies: int = 1,
    ):
        """Weights are sent in the types in which ``agent`` keeps them.

        ``make_batches`` gets these actors, see ``build.batches``; ``received`` gets each block;
        ``bodies`` is the number of those in a game.
        """
        self._receiver = receiver
        self._received = received
        self.batches = make_batches(self)
        self._rollouts = self.batches if isinstance(self.batches, Rollouts) else None
        self._published: list[tf.Tensor] = []
        self._updates = 0  # of these weights
        self._episodes = EndedEpisodes(bodies)
        self._ahead = BatchesAhead(self._next)
        dtypes = [weight.dtype for weight in agent.variables]
        # A copy, because the next update moves the learner's own weights.
        self._copy = tf.function(
            lambda weights: [tf.cast(w, to) for w, to in zip(weights, dtypes, strict=True)],
            autograph=False,
        )

    def __enter__(self) -> "RemoteActors":
        self._ahead.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ahead.close()

    def next(self, wait_s: float) -> Batch | None:
        """The next batch, on the learner's device; None if none is ready in time.

        One that was played in step and came too late is dropped: others have learned meanwhile.
        """
        batch = self._ahead.next(wait_s)
        is_late = batch and self._rollouts and batch.weights_version != self._updates
        return None if is_late else batch

    def episodes(self) -> np.ndarray:
        """The episodes that have ended since the last call, see ``ended_episodes``."""
        return self._episodes.take()

    def publish(self, learner: Learner) -> None:
        """Sends the learner's weights to the actors."""
        number = self._rollouts.begin(learner.updates) if self._rollouts else learner.updates
        self._updates = learner.updates
        self._published = self._copy(learner.weights)
        self._receiver.publish(self._published, number)

    def present(self) -> int:
        """The number of actors that are there now."""
        return self._receiver.present()

    def play_again(self, number: int) -> None:
        """Lets the actors play with the same weights again."""
        self._receiver.publish(self._published, number)

    def waits(self) -> dict[str, float]:
        """Seconds waited so far: the learner for a batch, an actor for the learner."""
        return {
            "learner_wait_share": self._ahead.take_wait_s,
            "actor_wait_share": self._receiver.waited_s(),
        }

    def learned(self, batch: Batch, errors: np.ndarray) -> None:
        """Takes the errors of a batch from a replay store."""
        assert isinstance(self.batches, ReplayedBatches)
        self.batches.learned(batch.number, errors)

    def count(self) -> float:
        """The mean number of connected actors since the first one joined."""
        return self._receiver.mean_actors()

    def _next(self) -> Batch | None:
        batch = self.batches.next(self._take)
        return batch and on_device(batch)

    def _take(self) -> Any:
        block = self._receiver.take(LOOK_EVERY_S)
        if block is not None:
            self._episodes.add(block)
            self._received(block)
        return block
