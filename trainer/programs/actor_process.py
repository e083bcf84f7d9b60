"""``--job_name=actor``: plays for a learner in another process."""

import contextlib
import os
import socket
from typing import NoReturn

import tensorflow as tf

from environments import EnvironmentSpec
from trainer import build
from trainer.acting.acting_agent import ActingAgent
from trainer.learning.batches import LOOK_EVERY_S, steps_in
from trainer.machine import cores
from trainer.machine.terminal import say
from trainer.machine.threads import leave_if
from trainer.programs import actor_of_agents
from trainer.programs.stopping import StopSignal
from trainer.remote import carriers
from trainer.reporting.pace import Pace
from trainer.settings.config import Settings
from transport import Closed, Link, Refused
from user_error import UserError


class _Leave(Exception):
    """A signal asked the actor to leave."""


def act(settings: Settings) -> None:
    """Plays until the learner has finished or a signal arrives."""
    if settings.level.agents:
        actor_of_agents.act(settings)
        return
    connect = carriers.connector(settings.remote, settings.credentials_file)
    tf.config.set_visible_devices([], "GPU")
    cores.divide(
        settings.actors.actors_on_host,
        side_by_side=2 if carriers.on_one_machine(settings.remote) else 1,
    )
    spec = build.level_spec(settings)
    settings = build.complete(settings, spec)
    agent = build.acting_agent(settings, spec)
    acting = build.player(settings, agent)
    blocks = build.blocks(settings, spec, agent, getattr(acting, "contributions", None))
    waits = settings.algorithm.feeding.actors_wait
    with StopSignal() as stop:
        link = Link(
            connect,
            settings.remote.learner_host,
            f"actor {settings.program.task} ({socket.gethostname()}, process {os.getpid()})",
            build.identity(settings, spec, agent, blocks),
            blocks,
            timeout_s=settings.remote.peer_timeout_s,
            ask_every_s=actor_of_agents.ASK_EVERY_S if waits else None,
            load=acting.load,
            say=lambda text: say(f"actor {settings.program.task}: {text}"),
        )
        with link:
            reason = _play(settings, spec, acting, link, stop)
    say(f"actor {settings.program.task}: {reason}")
    leave_if(link.hangs)


def _play(
    settings: Settings, spec: EnvironmentSpec, acting: ActingAgent, link: Link, stop: StopSignal
) -> str:
    """Plays unrolls; returns the reason for ending."""
    try:
        _fill(settings, spec, acting, link, stop)
    except _Leave:
        return f"left on {stop.name}."
    except Closed:
        return f"the learner at {settings.remote.learner_host} has finished; left."
    except Refused as error:
        raise UserError(str(error)) from None


def _fill(
    settings: Settings, spec: EnvironmentSpec, acting: ActingAgent, link: Link, stop: StopSignal
) -> NoReturn:
    """Plays and sends blocks of unrolls until an exception ends it."""

    def check() -> None:
        if stop.is_set():
            raise _Leave

    task = settings.program.task
    pace = Pace(f"actor {task}", settings.reporting.report_every_s, say)
    # The first weights also show how far the training is: see build.actor.
    while not link.announce(LOOK_EVERY_S):
        check()
        pace.add(0)
    start = acting.version
    environment = build.actor_environment(settings, task, start, spec)
    with contextlib.closing(environment):
        actor = build.actor(settings, environment, acting, task, check, start)
        envs = environment.num_envs
        frames_per_step = environment.spec.frames_per_step
        waits, played, learner = settings.algorithm.feeding.actors_wait, -1, ""
        while True:
            check()
            ready = link.announce(LOOK_EVERY_S)
            if learner != link.learner_process:
                # A learner that was started again may have weights of the same number.
                learner, played = link.learner_process, -1
            if ready and waits:
                with link.waiting():
                    ready = acting.wait_for_other(played, LOOK_EVERY_S)
            frames = 0
            if ready:
                played = acting.version
                unrolls = actor.unroll()
                frames = steps_in(unrolls) * frames_per_step
                link.put(acting.finish(unrolls), envs)
            pace.add(frames)
