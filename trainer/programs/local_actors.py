"""Actors that are threads of the learner's own process."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from algorithms.feeding import Gradients
from environments import EnvironmentSpec
from trainer import build
from trainer.acting.acting_agent import ActingAgent
from trainer.learning.ahead import BatchesAhead, on_device
from trainer.learning.batches import LOOK_EVERY_S, Batch
from trainer.learning.learner import Learner
from trainer.learning.replayed import Feeder, ReplayedBatches
from trainer.learning.rollouts import Crew, Rollouts
from trainer.learning.worker import Worker
from trainer.machine.gpus import visible_gpus
from trainer.machine.terminal import say
from trainer.machine.threads import name_thread, wait_for_end
from trainer.reporting.metrics import EndedEpisodes
from trainer.settings import sizes
from trainer.settings.config import Settings
from transport import Closed, UnrollQueue
from user_error import EndedOutside, UserError


class ActorFailed(Exception):
    """An exception of an environment or the agent in an actor's thread; it is the cause."""


class ActorEnded(ActorFailed, EndedOutside):
    """The same where the cause lies outside of the program."""


@tf.function(autograph=False)
def _copied(weights: list[tf.Variable]) -> list[tf.Tensor]:
    return [tf.identity(weight) for weight in weights]


class Intake:
    """What a learner sees of its actors: their unrolls as batches, and who gets its weights."""

    def __init__(
        self,
        settings: Settings,
        players: list[ActingAgent],
        make_batches: Callable[[Crew], Feeder],
        bodies: int,
        arrived: Callable[[], None],
    ):
        """Each actor plays with one of ``players``, which may be the same.

        ``make_batches`` gets these actors; ``bodies`` is the number of those in a game.
        ``arrived`` is called whenever unrolls have come.
        """
        self.players = players
        # Those that change their weights when they like need a copy, as updates move the learner's.
        self._copies = any(isinstance(one, Worker) for one in players)
        self.batches = make_batches(self)
        self._arrived = arrived
        self._rollouts = self.batches if isinstance(self.batches, Rollouts) else None
        self._published: list[Any] = []
        self._episodes = EndedEpisodes(bodies)
        self._weights_wait_s = 0.0  # for which actors in step have waited
        self._counting = threading.Lock()
        self.queue = UnrollQueue(sizes.capacity(settings, bodies))
        # A GPU's batches are copied while it computes; on a processor the copy would only be older.
        self._ahead = BatchesAhead(self._make_on_gpu) if visible_gpus() else None
        self._error: Exception | None = None

    def start(self) -> None:
        """Begins to make batches."""
        if self._ahead:
            self._ahead.start()

    def close(self) -> None:
        """Ends it: actors that wait or put get ``Closed``."""
        self.queue.close()
        if self._ahead:
            self._ahead.close()

    @property
    def filled(self) -> int:
        """Grows with what was played for a kept replay, also if no update has followed."""
        return self.batches.filled if isinstance(self.batches, ReplayedBatches) else 0

    @property
    def is_closed(self) -> bool:
        """Whether no unrolls are needed any more."""
        return self.queue.is_closed

    def fail(self, error: Exception) -> None:
        """Leaves the first error to the learner's thread, which raises it and ends the run."""
        self._error = self._error or error
        self.queue.close()

    def next(self, wait_s: float) -> Batch | None:
        """The next batch; None if it is not full in time."""
        return self._ahead.next(wait_s) if self._ahead else self._make(wait_s)

    def episodes(self) -> np.ndarray:
        """The episodes that have ended since the last call, see ``ended_episodes``."""
        return self._episodes.take()

    def publish(self, learner: Learner) -> None:
        """Gives the learner's weights to the actors."""
        number = self._rollouts.begin(learner.updates) if self._rollouts else learner.updates
        self._published = _copied(learner.weights) if self._copies else learner.weights
        self.play_again(number)

    def present(self) -> int:
        """The number of actors."""
        return len(self.players)

    def play_again(self, number: int) -> None:
        """Lets the actors play with the same weights again."""
        for player in dict.fromkeys(self.players):
            player.load(self._published, number)

    def learned(self, batch: Batch, errors: np.ndarray) -> None:
        """Takes the errors of a batch from a replay store."""
        assert isinstance(self.batches, ReplayedBatches)
        self.batches.learned(batch.number, errors)

    def count(self) -> float:
        """The number of actors."""
        return len(self.players)

    def waits(self) -> dict[str, float]:
        """Seconds waited so far: the learner for unrolls, an actor for room or new weights."""
        return {
            "learner_wait_share": (self._ahead or self.queue).take_wait_s,
            "actor_wait_share": (self.queue.put_wait_s + self._weights_wait_s) / len(self.players),
        }

    def wait_for_other(self, player: ActingAgent, version: int) -> None:
        """Waits until a player has other weights than these."""
        started = time.monotonic()
        while not player.wait_for_other(version, LOOK_EVERY_S):
            self.queue.check_open()
        if version >= 0:  # before the first ones, nobody could have played
            with self._counting:
                self._weights_wait_s += time.monotonic() - started

    def _make(self, wait_s: float) -> Batch | None:
        until = time.monotonic() + wait_s
        return self.batches.next(lambda: self._take(until))

    def _make_on_gpu(self) -> Batch | None:
        batch = self._make(LOOK_EVERY_S)
        return batch and on_device(batch)

    def _take(self, until: float) -> Any:
        try:
            block = self.queue.take(max(0.0, until - time.monotonic()))
        except Closed:
            raise self._error or Closed  # noqa: B904 (the error has its own cause)
        if block is not None:
            self._episodes.add(block)
            self._arrived()
        return block


def players_of(
    settings: Settings, spec: EnvironmentSpec, agent: Any, device: str
) -> list[ActingAgent]:
    """What each actor plays with: one agent for all, or each its own to compute gradients with."""
    count = settings.actors.num_actors
    if not isinstance(settings.algorithm.feeding, Gradients):
        return [build.player(settings, agent, device)] * count
    more = [build.acting_agent(settings, spec, device) for _ in range(count - 1)]
    return [build.player(settings, one, device) for one in (agent, *more)]


class Threads:
    """The threads of all actors; an error of one of them ends all learners."""

    def __init__(self, settings: Settings, play: Callable[[int], None], intakes: Sequence[Intake]):
        """``play`` plays as the actor of that number until an exception, usually ``Closed``."""
        self._settings = settings
        self._play = play
        self._intakes = intakes
        self._threads = [
            threading.Thread(target=self._act, args=(index,), name=f"actor {index}", daemon=True)
            for index in range(settings.actors.num_actors)
        ]

    def __enter__(self) -> "Threads":
        try:
            for thread in self._threads:
                thread.start()
            for intake in self._intakes:
                intake.start()
        except RuntimeError as error:
            self.__exit__()
            raise UserError(
                f"--num_actors={len(self._threads)}: cannot start this many threads ({error})."
            ) from None
        return self

    def __exit__(self, *_: object) -> None:
        for intake in self._intakes:
            intake.close()
        wait_for_end([thread for thread in self._threads if thread.ident is not None], say)

    def _act(self, index: int) -> None:
        """An actor's thread."""
        name_thread(f"actor {index}")
        try:
            self._play(index)
        except Closed:
            pass
        except UserError as error:
            self._fail(error)
        except BaseException as error:
            levels = self._settings.level.levels
            kind = ActorEnded if isinstance(error, EndedOutside) else ActorFailed
            failed = kind(
                f"actor {index}, which plays {levels[index % len(levels)]}, ended with "
                f"{type(error).__name__}: {error}"
            )
            failed.__cause__ = error
            self._fail(failed)

    def _fail(self, error: Exception) -> None:
        for intake in self._intakes:
            intake.fail(error)
