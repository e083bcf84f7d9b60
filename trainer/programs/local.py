"""Training on one machine: actors and learner as threads of one program that share the weights.

TensorFlow and the emulators release the interpreter's lock, so that emulation, inference and
learning run in parallel. The learner has the main thread; each actor has one of its own.
"""

import contextlib
import functools
import threading
from collections.abc import Callable

from algorithms.feeding import Gradients
from environments import VectorEnvironment
from trainer import build
from trainer.acting.acting_agent import ActingAgent
from trainer.learning.replayed import Feeder
from trainer.learning.rollouts import Crew
from trainer.machine import cores, gpus
from trainer.programs import local_agents, replay
from trainer.programs.companions import Companions, nobody
from trainer.programs.local_actors import Intake, Threads, players_of
from trainer.programs.outcome import OnReport, Outcome, ignore
from trainer.programs.run import Run
from trainer.programs.stopping import StopSignal
from trainer.programs.training import Training
from trainer.reporting import reporters
from trainer.settings.config import Settings

# Makes the environments of an actor from the settings, its index and ``start``: see ``seed_of``.
MakeEnvironment = Callable[[Settings, int, int], VectorEnvironment]


def train(
    settings: Settings,
    stop: StopSignal | None = None,
    on_report: OnReport = ignore,
    launched: float | None = None,
    companions: Companions = nobody,
    make_environment: MakeEnvironment | None = None,
) -> Outcome:
    """Trains until ``--total_environment_frames`` or a signal; resumes the run in the logdir.

    ``stop`` can request the end, too; ``Run`` explains ``on_report`` and ``launched``.
    ``make_environment`` gives actors something else to play in that looks like the level.
    """
    reporters.load(settings.reporting.reporters)  # refuses a wrong one before anything is made
    if settings.level.agents:
        return local_agents.train(settings, stop or StopSignal(), on_report, launched)
    parallel = cores.divide(side_by_side=2)
    spec = build.level_spec(settings)
    settings = build.complete(settings, spec)
    make_environment = make_environment or functools.partial(build.actor_environment, spec=spec)
    learner = build.learner(settings, spec, pieces=gpus.pieces(parallel))
    build.check_windows(settings, spec, learner.agent)
    with Run(settings, spec, learner, on_report, launched, companions) as run:
        meter = run.resume(learner)
        if meter.environment_frames >= settings.learning.total_environment_frames:
            return run.report_trained(meter)
        device = build.acting_device(settings)
        agent = build.acting_agent(settings, spec, device)
        players = players_of(settings, spec, agent, device)
        stop = stop or StopSignal()
        batches = functools.partial(build.batches, settings, spec, agent, say=run.reporter.say)
        example = build.unroll(settings, spec, learner.agent)
        make = replay.filled(batches, run, settings, spec, learner.updates, example)
        threads = ActorThreads(
            settings,
            players,
            make,
            learner.updates,
            make_environment,
            spec.num_bodies,
            run.unrolls_arrived,
        )
        run.begin()
        with stop, threads as actors:
            training = Training(settings, learner, meter, actors, stop, run)
            computes = not isinstance(settings.algorithm.feeding, Gradients)
            like = build.random_unrolls(settings, spec, learner.agent) if computes else None
            training.run(like)
        assert run.outcome
        return run.outcome


class ActorThreads(Intake):
    """The actors of this process, who all play for one learner."""

    def __init__(
        self,
        settings: Settings,
        players: list[ActingAgent],
        make_batches: Callable[[Crew], Feeder],
        start: int = 0,
        make_environment: MakeEnvironment = build.actor_environment,
        bodies: int = 1,
        arrived: Callable[[], None] = lambda: None,
    ):
        """``start`` is the number of updates before; for the others, see ``Intake``."""
        super().__init__(settings, players, make_batches, bodies, arrived)
        self._make_environment = make_environment
        self._settings = settings
        self._start = start + self.filled  # what was played since the last update is not repeated
        self._making = threading.Lock()
        self._threads = Threads(settings, self._act, [self])

    def __enter__(self) -> "ActorThreads":
        self._threads.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.__exit__()

    def _act(self, index: int) -> None:
        # Creating emulators holds the interpreter's lock, starting them does not. So the next
        # actor's are created while this one's start.
        with self._making:
            self.queue.check_open()
            environment = self._make_environment(self._settings, index, self._start)
        with contextlib.closing(environment):
            self._play(environment, index)

    def _play(self, environment: VectorEnvironment, index: int) -> None:
        """Fills the queue until it is closed."""
        acting = self.players[index]
        actor = build.actor(
            self._settings,
            environment,
            acting,
            index,
            self.queue.check_open,
            self._start,
        )
        envs, played = environment.num_envs, -1
        self.wait_for_other(acting, played)  # a resume has other weights than a new agent
        while True:
            if self._settings.algorithm.feeding.actors_wait:
                self.wait_for_other(acting, played)
                played = acting.version
            self.queue.announce(envs)
            self.queue.put(acting.finish(actor.unroll()), envs)
