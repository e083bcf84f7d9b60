"""Training on one machine: actors and learner as threads of one program that share the weights.

TensorFlow and the emulators release the interpreter's lock, so that emulation, inference and
learning run in parallel. The learner has the main thread; each actor has one of its own.
"""

import contextlib
import functools
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from algorithms.feeding import Gradients
from environments import EnvironmentSpec, VectorEnvironment
from trainer import build
from trainer.acting.acting_agent import ActingAgent
from trainer.learning.ahead import BatchesAhead, on_device
from trainer.learning.batches import LOOK_EVERY_S, Batch
from trainer.learning.learner import Learner
from trainer.learning.replayed import Feeder, ReplayedBatches
from trainer.learning.rollouts import Crew, Rollouts
from trainer.learning.worker import Worker
from trainer.machine import cores
from trainer.machine.gpus import visible_gpus
from trainer.machine.threads import name_thread
from trainer.programs import replay
from trainer.programs.companions import Companions, nobody
from trainer.programs.outcome import OnReport, Outcome, ignore
from trainer.programs.run import Run
from trainer.programs.stopping import StopSignal
from trainer.programs.training import Training
from trainer.reporting import reporters
from trainer.reporting.metrics import EndedEpisodes
from trainer.settings import sizes
from trainer.settings.config import Settings
from transport import Closed, UnrollQueue
from user_error import EndedOutside, UserError

# Makes the environments of an actor from the settings, its index and the updates before.
MakeEnvironment = Callable[[Settings, int, int], VectorEnvironment]


def train(
    settings: Settings,
    stop: StopSignal | None = None,
    on_report: OnReport = ignore,
    launched: float | None = None,
    companions: Companions = nobody,
    make_environment: MakeEnvironment = build.actor_environment,
) -> Outcome:
    """Trains until ``--total_environment_frames`` or a signal; resumes the run in the logdir.

    ``stop`` can request the end, too; ``Run`` explains ``on_report`` and ``launched``.
    ``make_environment`` gives actors something else to play in that looks like the level.
    """
    reporters.load(settings.reporting.reporters)  # refuses a wrong one before anything is made
    parallel_ops = cores.divide(side_by_side=2)
    spec = build.level_spec(settings)
    settings = build.complete(settings, spec)
    learner = build.learner(settings, spec, pieces=parallel_ops)
    with Run(settings, spec, learner, on_report, launched, companions) as run:
        meter = run.resume(learner)
        if meter.environment_frames >= settings.learning.total_environment_frames:
            return run.report_trained(meter)
        device = build.acting_device(settings)
        agent = build.acting_agent(settings, spec, device)
        players = _players(settings, spec, agent, device)
        stop = stop or StopSignal()
        make = functools.partial(build.batches, settings, spec, agent, say=run.reporter.say)
        threads = ActorThreads(
            settings, players, make, learner.updates, make_environment, spec.num_bodies
        )
        with stop, threads as actors:
            example = build.unroll(settings, spec, learner.agent)
            replay.connect(run, settings, spec, actors.batches, learner.updates, example)
            training = Training(settings, learner, meter, actors, stop, run)
            computes = not isinstance(settings.algorithm.feeding, Gradients)
            like = build.random_unrolls(settings, spec, learner.agent) if computes else None
            training.run(like)
        assert run.outcome
        return run.outcome


def _players(
    settings: Settings, spec: EnvironmentSpec, agent: Any, device: str
) -> list[ActingAgent]:
    """What each actor plays with: one agent for all, or each its own to compute gradients with."""
    count = settings.actors.num_actors
    if not isinstance(settings.algorithm.feeding, Gradients):
        return [build.player(settings, agent, device)] * count
    more = [build.acting_agent(settings, spec, device) for _ in range(count - 1)]
    return [build.player(settings, one) for one in (agent, *more)]


@tf.function(autograph=False)
def _copied(weights: list[tf.Variable]) -> list[tf.Tensor]:
    return [tf.identity(weight) for weight in weights]


class ActorFailed(Exception):
    """An exception of an environment or the agent in an actor's thread; it is the cause."""


class ActorEnded(ActorFailed, EndedOutside):
    """The same where the cause lies outside of the program."""


class ActorThreads:
    """The actors of this process and the queue that they fill."""

    def __init__(
        self,
        settings: Settings,
        players: list[ActingAgent],
        make_batches: Callable[[Crew], Feeder],
        start: int = 0,
        make_environment: MakeEnvironment = build.actor_environment,
        bodies: int = 1,
    ):
        """Each actor plays with one of ``players``, which may be the same.

        ``make_batches`` gets these actors; ``start`` is the number of updates before; ``bodies`` is
        the number of those in a game.
        """
        self._make_environment = make_environment
        self._settings = settings
        self._start = start
        self._players = players
        # Those that change their weights when they like need a copy, as updates move the learner's.
        self._copies = any(isinstance(one, Worker) for one in players)
        self.batches = make_batches(self)
        self._rollouts = self.batches if isinstance(self.batches, Rollouts) else None
        self._published: list[Any] = []
        self._episodes = EndedEpisodes(bodies)
        self._queue = UnrollQueue(sizes.capacity(settings))
        # A GPU's batches are copied while it computes; on a processor the copy would only be older.
        self._ahead = BatchesAhead(self._make_on_gpu) if visible_gpus() else None
        self._error: Exception | None = None
        self._making = threading.Lock()
        self._threads = [
            threading.Thread(target=self._act, args=(index,), name=f"actor {index}")
            for index in range(settings.actors.num_actors)
        ]

    def __enter__(self) -> "ActorThreads":
        try:
            for thread in self._threads:
                thread.start()
            if self._ahead:
                self._ahead.start()
        except RuntimeError as error:
            self.__exit__()
            raise UserError(
                f"--num_actors={len(self._threads)}: cannot start this many threads ({error})."
            ) from None
        return self

    def __exit__(self, *_: object) -> None:
        self._queue.close()
        if self._ahead:
            self._ahead.close()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

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
        return len(self._threads)

    def play_again(self, number: int) -> None:
        """Lets the actors play with the same weights again."""
        for player in dict.fromkeys(self._players):
            player.load(self._published, number)

    def learned(self, batch: Batch, errors: np.ndarray) -> None:
        """Takes the errors of a batch from a replay store."""
        assert isinstance(self.batches, ReplayedBatches)
        self.batches.learned(batch.number, errors)

    def count(self) -> float:
        """The number of actors."""
        return len(self._threads)

    def waits(self) -> dict[str, float]:
        """Seconds waited so far: the learner for unrolls, an actor for the queue."""
        return {
            "learner_wait_share": (self._ahead or self._queue).take_wait_s,
            "actor_wait_share": self._queue.put_wait_s / len(self._threads),
        }

    def _make(self, wait_s: float) -> Batch | None:
        until = time.monotonic() + wait_s
        return self.batches.next(lambda: self._take(until))

    def _make_on_gpu(self) -> Batch | None:
        batch = self._make(LOOK_EVERY_S)
        return batch and on_device(batch)

    def _take(self, until: float) -> Any:
        try:
            block = self._queue.take(max(0.0, until - time.monotonic()))
        except Closed:
            raise self._error or Closed  # noqa: B904 (the error has its own cause)
        if block is not None:
            self._episodes.add(block)
        return block

    def _act(self, index: int) -> None:
        """An actor's thread."""
        name_thread(f"actor {index}")
        settings = self._settings
        try:
            # Creating emulators holds the interpreter's lock, starting them does not. So the next
            # actor's are created while this one's start.
            with self._making:
                self._queue.check_open()
                environment = self._make_environment(settings, index, self._start)
            with contextlib.closing(environment):
                self._play(environment, index)
        except Closed:
            pass
        except UserError as error:
            self._fail(error)
        except BaseException as error:
            level = settings.level.levels[index % len(settings.level.levels)]
            kind = ActorEnded if isinstance(error, EndedOutside) else ActorFailed
            failed = kind(
                f"actor {index}, which plays {level}, ended with {type(error).__name__}: {error}"
            )
            failed.__cause__ = error
            self._fail(failed)

    def _play(self, environment: VectorEnvironment, index: int) -> None:
        """Fills the queue until it is closed."""
        acting = self._players[index]
        actor = build.actor(
            self._settings,
            environment,
            acting,
            index,
            self._queue.check_open,
            self._start,
        )
        envs, played = environment.num_envs, -1
        while True:
            if self._settings.algorithm.feeding.actors_wait:
                while not acting.wait_for_other(played, LOOK_EVERY_S):
                    self._queue.check_open()
                played = acting.version
            self._queue.announce(envs)
            self._queue.put(acting.finish(actor.unroll()), envs)

    def _fail(self, error: Exception) -> None:
        """Leaves the first error to the learner's thread, which raises it and ends the run."""
        self._error = self._error or error
        self._queue.close()
