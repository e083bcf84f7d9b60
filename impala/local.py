"""Training on one machine: actors and learner as threads of one program that share the weights.

TensorFlow and the emulators release the interpreter's lock, so that emulation, inference and
learning run side by side. The learner has the main thread; each actor has one of its own.
"""

import dataclasses
import os
import threading

import tensorflow as tf

from environments import VectorEnvironment
from impala import build, config
from impala.acting import ActingAgent
from impala.actor import Actor
from impala.batches import Batches, Replay
from impala.config import Settings
from impala.learner import Learner
from impala.metrics import Meter
from impala.run import Run
from impala.stopping import StopAsked, StopSignal
from impala.trajectory import Unroll
from transport import Closed, UnrollQueue
from user_error import UserError

# How long the learner waits for unrolls before it looks whether it was told to stop.
LOOK_EVERY_S = 0.2


def train(settings: Settings) -> None:
    """Trains until ``--total_environment_frames`` or a signal; resumes what lies in the logdir."""
    _share_cores()
    spec = build.level_spec(settings)
    settings = dataclasses.replace(settings, agent_name=build.agent_name(settings, spec))
    learner = Learner(build.learning_agent(settings, spec), settings)
    with Run(settings, spec, learner) as run:
        meter = run.resume(learner)
        if meter.environment_frames >= settings.total_environment_frames:
            run.say_trained(meter)
            return
        acting = ActingAgent(build.acting_agent(settings, spec))
        acting.load(learner.weights, learner.updates)
        with StopSignal() as stop, ActorThreads(settings, acting) as actors:
            try:
                _learn(settings, run, learner, acting, actors, meter, stop)
            except UserError:
                raise
            except Exception as error:
                run.fail(learner, meter, error)
                raise
            run.finish(learner, meter, actors.waits(), stop.name or "all frames are played")


def _learn(
    settings: Settings,
    run: Run,
    learner: Learner,
    acting: ActingAgent,
    actors: "ActorThreads",
    meter: Meter,
    stop: StopSignal,
) -> None:
    """Updates until the frames are spent or a stop is asked for."""
    fresh = config.fresh_unrolls(settings)
    replay = Replay(settings.replay_capacity, settings.seed) if settings.replay_share else None
    batches = Batches(fresh, settings.batch_size - fresh, replay)
    total = settings.total_environment_frames
    while meter.environment_frames < total and not stop.is_set():
        try:
            batch = batches.next(lambda: actors.take(meter, stop))
        except StopAsked:
            return
        lag = learner.updates - float(batch.weights_version[:fresh].mean())
        statistics = learner.update(batch, 1.0 - meter.environment_frames / total)
        acting.load(learner.weights, learner.updates)
        meter.add_update(statistics, lag, fresh * settings.unroll_length)
        run.after_update(learner, meter, statistics, actors.waits())


class ActorFailed(Exception):
    """An environment or the agent raised something in an actor's thread; the cause says what."""


class ActorThreads:
    """The actors of this process and the queue that they fill."""

    def __init__(self, settings: Settings, acting: ActingAgent):
        self._settings = settings
        self._queue = UnrollQueue(config.capacity(settings))
        self._error: Exception | None = None
        environments = [build.actor_environment(settings, i) for i in range(settings.num_actors)]
        self._threads = [
            threading.Thread(
                target=self._play, args=(environment, acting, index), name=f"actor {index}"
            )
            for index, environment in enumerate(environments)
        ]

    def __enter__(self) -> "ActorThreads":
        try:
            for thread in self._threads:
                thread.start()
        except RuntimeError as error:
            self.__exit__()
            raise UserError(
                f"--num_actors={len(self._threads)}: so many threads cannot be started ({error})."
            ) from None
        return self

    def __exit__(self, *_: object) -> None:
        self._queue.close()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def take(self, meter: Meter, stop: StopSignal) -> Unroll:
        """The next block of unrolls; ``StopAsked`` once a signal came."""
        while not stop.is_set():
            try:
                taken = self._queue.take(LOOK_EVERY_S)
            except Closed:
                raise self._error or Closed  # noqa: B904 (the error has a cause of its own)
            if taken is not None:
                meter.add_block(taken)
                return taken
        raise StopAsked

    def waits(self) -> dict[str, float]:
        """Seconds waited since the start: the learner for unrolls, an actor for the queue."""
        return {
            "learner_wait_share": self._queue.take_wait_s,
            "actor_wait_share": self._queue.put_wait_s / len(self._threads),
        }

    def _play(self, environment: VectorEnvironment, acting: ActingAgent, index: int) -> None:
        settings = self._settings
        try:
            actor = Actor(
                environment,
                acting,
                settings.unroll_length,
                level=index % len(settings.levels),
                seed=settings.seed * 100_003 + index,
                check=self._queue.check_open,
            )
            while True:
                self._queue.announce(settings.envs_per_actor)
                self._queue.put(actor.unroll(), settings.envs_per_actor)
        except Closed:
            pass
        except UserError as error:
            self._fail(error)
        except BaseException as error:
            level = settings.levels[index % len(settings.levels)]
            failed = ActorFailed(
                f"actor {index}, which plays {level}, ended with {type(error).__name__}: {error}"
            )
            failed.__cause__ = error
            self._fail(failed)
        finally:
            environment.close()

    def _fail(self, error: Exception) -> None:
        """Leaves it to the learner's thread to tell the first error and to end the run."""
        self._error = self._error or error
        self._queue.close()


def _share_cores() -> None:
    """Half of the cores for one operation of TensorFlow: emulators need theirs at the same time."""
    cores = len(os.sched_getaffinity(0))
    tf.config.threading.set_intra_op_parallelism_threads(max(1, cores // 2))
    tf.config.threading.set_inter_op_parallelism_threads(cores)
