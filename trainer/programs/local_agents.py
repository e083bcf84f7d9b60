"""Training several agents on one machine: a learner each, actors that play for all of them.

Each learner has a thread of its own; an actor gives each the unrolls of its own bodies.
"""

import contextlib
import dataclasses
import functools
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from algorithms.feeding import Gradients
from trainer import build, seats
from trainer.acting.acting_agent import ActingAgent
from trainer.acting.actor import SharedActor
from trainer.learning.learner import Learner
from trainer.learning.replayed import Feeder
from trainer.learning.rollouts import Crew
from trainer.machine import cores, gpus
from trainer.machine.threads import name_thread
from trainer.programs import replay, resuming
from trainer.programs.local_actors import Intake, Threads, players_of
from trainer.programs.outcome import OnReport, Outcome
from trainer.programs.run import Run
from trainer.programs.stopping import StopSignal
from trainer.programs.training import Training
from trainer.reporting import several
from trainer.reporting.metrics import Meter
from trainer.seats import OneOf
from trainer.settings.config import Settings
from trainer.storage.folder import FolderLock, make_writable
from transport import Closed


@dataclasses.dataclass(frozen=True)
class _Part:
    """What there is of one agent."""

    agent: OneOf
    learner: Learner
    run: Run
    meter: Meter
    intake: Intake
    start: int  # see ``seed_of``

    @property
    def is_trained(self) -> bool:
        """Whether nothing is left to train."""
        total = self.agent.settings.learning.total_environment_frames
        return self.meter.environment_frames >= total


def train(
    settings: Settings, stop: StopSignal, on_report: OnReport, launched: float | None
) -> Outcome:
    """Trains the agents of ``--agents`` until each has its frames, or a signal; resumes them."""
    agents = seats.agents_of(settings)
    parallel = cores.divide(side_by_side=1 + len(agents))
    terminal = several.SeveralOnTerminal()
    reporting = threading.Lock()

    def report(name: str, figures: dict[str, Any]) -> None:
        with reporting:
            on_report(figures | {"agent": name})

    folder = Path(settings.run_folder)
    make_writable(folder)
    with contextlib.ExitStack() as stack:
        stack.callback(FolderLock(folder).release)
        resuming.check_folder_of_several(folder, settings.level.agents)
        learners = [
            build.learner(agent.settings, agent.spec, pieces=gpus.pieces(parallel))
            for agent in agents
        ]
        for agent, learner in zip(agents, learners, strict=True):
            build.check_windows(agent.settings, agent.spec, learner.agent)
        parts = []
        for agent, learner in zip(agents, learners, strict=True):
            own = functools.partial(report, agent.name)
            run = stack.enter_context(
                Run(agent.settings, agent.spec, learner, own, launched, several=terminal)
            )
            parts.append(_part(agent, learner, run, len(agents)))
        if not all(part.is_trained for part in parts):
            for part in parts:
                if not part.is_trained:
                    part.run.begin()
            several.write_settings(folder, settings, terminal.say)
            _train(settings, parts, stop)
        outcomes = {
            part.agent.name: part.run.outcome or part.run.report_trained(part.meter)
            for part in parts
        }
        several.draw(folder, settings, terminal.say)
    figures = {
        f"{name}/{figure}": value
        for name, one in outcomes.items()
        for figure, value in one.figures.items()
    }
    reason = "; ".join(f"{name}: {one.reason}" for name, one in outcomes.items())
    return Outcome(folder, figures, None, reason, settings, outcomes)


def _part(agent: OneOf, learner: Learner, run: Run, agents: int) -> _Part:
    settings, spec = agent.settings, agent.spec
    meter = run.resume(learner)
    device = build.acting_device(settings)
    acting = build.acting_agent(settings, spec, device)
    players = players_of(settings, spec, acting, device)
    make: Callable[[Crew], Feeder] = functools.partial(
        build.batches, settings, spec, acting, say=run.reporter.say, agents=agents
    )
    if meter.environment_frames < settings.learning.total_environment_frames:
        example = build.unroll(settings, spec, learner.agent)
        make = replay.filled(make, run, settings, spec, learner.updates, example)
    intake = Intake(settings, players, make, spec.num_bodies, lambda: None)
    return _Part(agent, learner, run, meter, intake, learner.updates + intake.filled)


def _train(settings: Settings, parts: Sequence[_Part], stop: StopSignal) -> None:
    """Trains all that are not trained yet; raises the first error of one of them."""
    errors: list[BaseException] = []

    def learn(part: _Part) -> None:
        name_thread(f"learner {part.agent.name}")
        try:
            _learn(part, stop.of_one())
        except BaseException as error:
            errors.append(error)
            stop.request(f"{part.agent.name} ended with an error")
        finally:
            part.intake.close()  # from now on its bodies are played, but not learned from

    actors = Threads(
        settings, functools.partial(_play, settings, parts), [part.intake for part in parts]
    )
    threads = [threading.Thread(target=learn, args=(part,)) for part in parts]
    with stop, actors:
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        except BaseException:  # such as a second Ctrl-C in a caller's program
            stop.request("interrupted")
            raise
        finally:
            # They write their last checkpoints, and after this others may have the folders.
            for thread in threads:
                if thread.ident is not None:
                    thread.join()
    if errors:
        raise errors[0]


def _learn(part: _Part, stop: StopSignal) -> None:
    """A learner's thread."""
    settings, spec = part.agent.settings, part.agent.spec
    if part.is_trained:
        part.intake.publish(part.learner)
        return
    computes = not isinstance(settings.algorithm.feeding, Gradients)
    like = build.random_unrolls(settings, spec, part.learner.agent) if computes else None
    training = Training(
        settings, part.learner, part.meter, part.intake, stop, part.run, say=part.run.reporter.say
    )
    training.run(like, ended=part.intake.close)


def _play(settings: Settings, parts: Sequence[_Part], index: int) -> None:
    """An actor's thread: plays until no learner needs unrolls any more."""
    level = index % len(settings.level.levels)
    there = [part for part in parts if level in part.agent.bodies]

    def check() -> None:
        if all(part.intake.is_closed for part in there):
            raise Closed

    check()
    start = max(part.start for part in there)
    environment = seats.environment_of([part.agent for part in there], settings, index, start)
    with contextlib.closing(environment):
        turns = [
            _Turns(part, _player(part, settings, index), own.num_envs)
            for part, own in zip(there, environment.parts, strict=True)
        ]
        for one in turns:
            one.wait_for_weights()
        actor = SharedActor(
            environment,
            [
                build.seat(
                    part.agent.settings,
                    own,
                    one.player,
                    index,
                    part.agent.own_level(level),
                    part.start,
                )
                for part, own, one in zip(there, environment.parts, turns, strict=True)
            ],
            check,
        )
        while True:
            wanted = [one.wait() for one in turns]
            for one, wants, block in zip(turns, wanted, actor.unrolls(), strict=True):
                if wants:
                    one.put(block)


def _player(part: _Part, settings: Settings, index: int) -> ActingAgent:
    """What an actor plays with for this agent; see ``players_of``."""
    levels = len(settings.level.levels)
    before = sum(other % levels in part.agent.bodies for other in range(index))
    return part.intake.players[before]


class _Turns:
    """What an actor does for one learner, which may have finished before the others."""

    def __init__(self, part: _Part, player: ActingAgent, envs: int):
        self.player = player
        self._intake = part.intake
        self._envs = envs
        self._waits = part.agent.settings.algorithm.feeding.actors_wait
        self._played = -1

    def wait_for_weights(self) -> None:
        """Waits until there are weights to play with; those of a finished learner remain."""
        self._intake.wait_for_other(self.player, -1)

    def wait(self) -> bool:
        """Waits until the learner wants the next block; False if it wants no more."""
        if self._intake.is_closed:  # no other weights will come
            return False
        try:
            if self._waits:
                self._intake.wait_for_other(self.player, self._played)
                self._played = self.player.version
            self._intake.queue.announce(self._envs)
        except Closed:
            return False
        return True

    def put(self, block: Any) -> None:
        """Gives the block to the learner."""
        with contextlib.suppress(Closed):
            self._intake.queue.put(self.player.finish(block), self._envs)
