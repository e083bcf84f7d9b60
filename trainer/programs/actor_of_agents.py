"""``--job_name=actor`` of several agents: plays for a learner of each, over a link of its own."""

import contextlib
import os
import socket
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from environments import VectorEnvironment
from trainer import build, seats
from trainer.acting.actor import Seat, SharedActor
from trainer.learning.batches import LOOK_EVERY_S, steps_in
from trainer.machine import cores
from trainer.machine.terminal import say
from trainer.machine.threads import leave_if
from trainer.programs.stopping import StopSignal
from trainer.remote import carriers
from trainer.reporting.pace import Pace
from trainer.seats import OneOf
from trainer.settings import addresses
from trainer.settings.config import Settings
from transport import Closed, Link, Refused
from user_error import UserError

# How often an actor asks for weights that it waits for.
ASK_EVERY_S = 0.05


class _Leave(Exception):
    """The actor is to leave; the text says why."""


def act(settings: Settings) -> None:
    """Plays until the learners of all agents have finished, or a signal arrives."""
    hosts = addresses.of_agents(settings.remote.learner_host, settings.level.agent_names)
    cores.divide(
        settings.actors.actors_on_host,
        side_by_side=2
        if any(carriers.on_one_machine(settings.remote, host) for host in hosts.values())
        else 1,
    )
    tf.config.set_visible_devices([], "GPU")
    task, level = settings.program.task, settings.program.task % len(settings.level.levels)
    there = [agent for agent in seats.agents_of(settings) if level in agent.bodies]
    with StopSignal() as stop, contextlib.ExitStack() as stack:
        turns = [_Turns(agent, settings, hosts[agent.name]) for agent in there]
        for one in turns:
            stack.enter_context(one.link)
        try:
            _play(settings, turns, stop)
        except _Leave as reason:
            say(f"actor {task}: {reason}; left.")
        except Refused as error:
            raise UserError(str(error)) from None
    leave_if(any(one.link.hangs for one in turns))


def _play(settings: Settings, turns: Sequence["_Turns"], stop: StopSignal) -> None:
    """Plays blocks for all learners until an exception ends it."""

    def check() -> None:
        if stop.is_set():
            raise _Leave(f"asked to end by {stop.name}")
        if all(one.is_finished for one in turns):
            raise _Leave("all learners have finished")

    task = settings.program.task
    pace = Pace(f"actor {task}", settings.reporting.report_every_s, say)
    # The first weights also show how far the training is: see build.seat.
    there = [False]
    while not all(there):
        there = [one.has_weights() for one in turns]  # all of them: any may have refused this actor
        check()
        pace.add(0)
    start = max(one.acting.version for one in turns)
    agents = [one.agent for one in turns]
    with contextlib.closing(seats.environment_of(agents, settings, task, start)) as environment:
        pairs = list(zip(turns, environment.parts, strict=True))
        actor = SharedActor(environment, [one.seat(part, task) for one, part in pairs], check)
        while True:
            check()
            wanted = [one.wants() for one in turns]
            frames = 0
            if None not in wanted and any(wanted):  # nobody may be there to play for
                for one, wants in zip(turns, wanted, strict=True):
                    if wants:
                        one.begin()
                for (one, part), wants, block in zip(pairs, wanted, actor.unrolls(), strict=True):
                    frames += steps_in(block) * part.spec.frames_per_step
                    if wants:
                        one.put(block, part.num_envs)
            pace.add(frames)


class _Turns:
    """What an actor does for the learner of one agent.

    A learner that has finished or cannot be reached is not waited for: its agent plays on with the
    weights that it had, and these unrolls are dropped.
    """

    def __init__(self, agent: OneOf, settings: Settings, address: str):
        self.agent = agent
        self.is_finished = False
        own, task = agent.settings, settings.program.task
        acting_agent = build.acting_agent(own, agent.spec)
        self.acting = build.player(own, acting_agent)
        contributions = getattr(self.acting, "contributions", None)
        blocks = build.blocks(own, agent.spec, acting_agent, contributions)
        self._level = task % len(settings.level.levels)
        self._waits = own.algorithm.feeding.actors_wait
        self._address = address
        self._say = lambda text: say(f"actor {task}: {agent.name}: {text}")
        self._played, self._learner = -1, ""
        self.link = Link(
            carriers.connector(own.remote, own.credentials_file, address),
            address,
            f"actor {task} ({socket.gethostname()}, process {os.getpid()})",
            build.identity(own, agent.spec, acting_agent, blocks),
            blocks,
            timeout_s=own.remote.peer_timeout_s,
            ask_every_s=ASK_EVERY_S if self._waits else None,
            load=self.acting.load,
            say=self._say,
        )

    def seat(self, part: VectorEnvironment, task: int) -> Seat:
        """The agent's seat in the actor's environments."""
        level = self.agent.own_level(self._level)
        return build.seat(self.agent.settings, part, self.acting, task, level, self.acting.version)

    def has_weights(self) -> bool:
        """Whether there are weights to play with."""
        ready = self._announce()
        if self.is_finished:
            raise _Leave(f"{self.agent.name} has finished, and its weights have not come here")
        return ready

    def wants(self) -> bool | None:
        """Whether the learner wants the next block; None while that is not known."""
        ready = self._announce()
        if self.is_finished:
            return False
        if self._learner != self.link.learner_process:
            # A learner that was started again may have weights of the same number.
            self._learner, self._played = self.link.learner_process, -1
        if ready and self._waits:
            with self.link.waiting():
                ready = self.acting.wait_for_other(self._played, LOOK_EVERY_S)
        return True if ready else None if self.link.is_connected else False

    def begin(self) -> None:
        """Notes that a block is played with the weights of now.

        Not before all learners want one: these weights would count as played, and a learner in
        step has no others until it gets the block.
        """
        self._played = self.acting.version

    def put(self, block: Any, count: int) -> None:
        """Sends a block of unrolls."""
        self.link.put(self.acting.finish(block), count)

    def _announce(self) -> bool:
        if self.is_finished:
            return False
        try:
            return self.link.announce(LOOK_EVERY_S)
        except Closed:
            self.is_finished = True
            self.link.close()
            self._say(f"the learner at {self._address} has finished.")
            return False
