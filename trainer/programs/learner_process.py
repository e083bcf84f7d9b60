"""``--job_name=learner``: trains on what actors in other processes play.

Started by ``mpirun`` as one of several, it trains together with the others.
"""

import contextlib
import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import credentials
from algorithms.feeding import Gradients, Replayed
from credentials import Credentials
from environments import EnvironmentSpec
from trainer import build, seats
from trainer.learning.learner import Learner
from trainer.learning.replayed import Feeder
from trainer.learning.rollouts import Crew
from trainer.machine import terminal
from trainer.machine.launching import keep_to_this_host
from trainer.machine.threads import leave_if
from trainer.programs import replay, resuming
from trainer.programs.companions import Companions, nobody
from trainer.programs.run import Run
from trainer.programs.stopping import StopSignal
from trainer.programs.training import Training
from trainer.remote import carriers, wire
from trainer.remote.peers import COMPARE_EVERY_S, Peers
from trainer.remote.remote_actors import RemoteActors
from trainer.remote.synthetic import SyntheticActors
from trainer.remote.tasks import Tasks
from trainer.reporting import several
from trainer.reporting.metrics import Meter
from trainer.settings import sizes
from trainer.settings.config import Settings
from trainer.team import joining
from trainer.team.team import Team
from transport import Identity, Layout, Link, Receiver
from transport.link import LONGEST_PAUSE_S
from user_error import NotWritten, UserError

REJOINED_WITHIN_S = 3 * LONGEST_PAUSE_S  # by actors that look for their learner again and again


def learn(settings: Settings, companions: Companions = nobody) -> None:
    """Trains until ``--total_environment_frames`` or a signal; resumes the run in the logdir."""
    with StopSignal() as stop:
        team, pieces = _team(settings)
        of_all = settings
        if of_all.level.agents:
            resuming.check_folder_of_several(Path(of_all.run_folder), of_all.level.agents)
        settings, spec = _own(settings)
        learner = build.learner(settings, spec, team, pieces)
        with contextlib.ExitStack() as stack:
            run, meter = _start(settings, spec, learner, team, stack, companions)
            is_trained = meter.environment_frames >= settings.learning.total_environment_frames
            if is_trained and run:
                run.report_trained(meter)
            say = run.reporter.say if run else terminal.say
            agent = build.acting_agent(settings, spec)
            mine = carriers.of_team(settings.remote, settings.credentials_file, team)
            blocks = build.blocks(settings, spec, agent, learner.contribution)
            of_learners = build.identity_of_learners(settings, spec, agent, blocks)
            peers = _peers(settings, learner, of_learners, blocks, say)
            listen = functools.partial(
                _receiver, settings, spec, agent, blocks, team, mine, peers, of_learners
            )
            if is_trained:
                _send_home(listen)
                return
            receiver = stack.enter_context(listen(say))
            make_batches = _batches(settings, spec, agent, learner, team, run, say)
            actors = stack.enter_context(
                _actors(settings, spec, agent, team, receiver, make_batches, say, peers)
            )
            if run:
                run.begin()
                if of_all.level.agents:
                    several.write_settings(Path(of_all.run_folder), of_all, run.reporter.say)
            if peers and run:
                run.add(stack.enter_context(peers))
                _begin_among(peers, settings, learner, meter, stop)
            training = Training(settings, learner, meter, actors, stop, run, team, say)
            not_written = None
            try:
                training.run()
            except NotWritten as error:  # actors stay for the same command again
                not_written = error
            if training.is_complete and team.broadcast_value(not_written is None):
                receiver.finish()
            if not_written:
                raise not_written
            if run and of_all.level.agents:
                several.draw(Path(of_all.run_folder), of_all, run.reporter.say)
        leave_if(peers is not None and peers.hangs)


def _send_home(listen: Callable[[Callable[[str], None]], Receiver]) -> None:
    """Tells actors that have waited for this learner that nothing is left to train.

    Before this one there was another, which was killed just then, or had no room for all.
    """
    try:
        receiver = listen(lambda text: None)
    except UserError:  # nobody waits for it at a port that another has
        return
    with receiver:
        time.sleep(REJOINED_WITHIN_S)
        receiver.finish()


def _batches(
    settings: Settings,
    spec: EnvironmentSpec,
    agent: Any,
    learner: Learner,
    team: Team,
    run: Run | None,
    say: Callable[[str], None],
) -> Callable[[Crew], Feeder]:
    """What makes batches of actors' unrolls; a replay store begins with what it held before."""
    feeding = settings.algorithm.feeding
    if team.size > 1 and isinstance(feeding, Replayed) and (feeding.kept or feeding.played):
        flag = "checkpoint_replay" if feeding.kept else "replay_played"
        raise UserError(f"--{flag} is for a single learner; {team.size} were started.")
    make = functools.partial(build.batches, settings, spec, agent, say=say, learners=team.size)
    if run is None:
        return make
    example = build.unroll(settings, spec, agent)
    return replay.filled(make, run, settings, spec, learner.updates, example)


def _actors(
    settings: Settings,
    spec: EnvironmentSpec,
    agent: Any,
    team: Team,
    receiver: Receiver,
    make_batches: Callable[[Crew], Feeder],
    say: Callable[[str], None],
    peers: Peers | None,
) -> RemoteActors:
    """The actors that ``receiver`` hears, or what ``--synthetic_unrolls`` puts in their place."""
    if settings.remote.synthetic_unrolls:
        random = build.random_unrolls(settings, spec, agent, team.size)
        return SyntheticActors(receiver, agent, make_batches, random)
    tasks = Tasks(say)

    def received(block: Any) -> None:
        tasks.check(block)
        if peers:
            peers.forward(block)

    return RemoteActors(receiver, agent, make_batches, received, spec.num_bodies)


def _begin_among(
    peers: Peers, settings: Settings, learner: Learner, meter: Meter, stop: StopSignal
) -> None:
    """Begins with the weights of those that train already, and counts what was played for them."""
    before = learner.updates
    peers.begin(stop)
    # Each update is by an actor's gradient, of one unroll from each of its environments.
    of_an_update = sizes.envs_per_actor(settings) * settings.actors.unroll_length
    meter.add_played(max(0, learner.updates - before) * of_an_update)


def _own(settings: Settings) -> tuple[Settings, EnvironmentSpec]:
    """The settings of this learner's run, and what its agent plays."""
    if not settings.level.agents:
        spec = build.level_spec(settings)
        return build.complete(settings, spec), spec
    if settings.remote.transport == "secure" and not settings.remote.credentials:
        credentials.make(Path(settings.credentials_folder))  # one for the learners of all agents
    agent = seats.agent_of(settings)
    return agent.settings, agent.spec


def _peers(
    settings: Settings,
    learner: Learner,
    identity: Identity,
    blocks: Layout,
    say: Callable[[str], None],
) -> Peers | None:
    """The learners of ``--peers``, with which this one exchanges gradients."""
    remote = settings.remote
    if not remote.peers:
        return None
    addresses = remote.peers.split(",")
    rank = addresses.index(remote.learner_host)

    def connect(address: str, load: Callable[[list[np.ndarray], int], None]) -> Link:
        return Link(
            carriers.connector(remote, settings.credentials_file, address, of_learner=True),
            address,
            f"learner {rank} ({remote.learner_host})",
            identity,
            blocks,
            timeout_s=remote.peer_timeout_s,
            fetch_every_s=COMPARE_EVERY_S,
            load=load,
            say=say,
            of_learner=True,
        )

    return Peers(learner, addresses, rank, connect, say)


def _team(settings: Settings) -> tuple[Team, int]:
    """The learners started together; how many pieces of a batch each computes at once."""
    if settings.remote.transport == "secure":
        keep_to_this_host()
    patience = settings.remote.peer_timeout_s + settings.team.max_batch_wait_s
    team, pieces = joining.join(patience, settings.team.gradient_compression)
    if team.size > 1 and isinstance(settings.algorithm.feeding, Gradients):
        raise UserError(
            f"--algorithm={settings.program.algorithm}: its learners are not started together by "
            "mpirun. Start one, or several with the same --peers, which exchange gradients."
        )
    return team, pieces


def _start(
    settings: Settings,
    spec: EnvironmentSpec,
    learner: Learner,
    team: Team,
    stack: contextlib.ExitStack,
    companions: Companions,
) -> tuple[Run | None, Meter]:
    """Brings all learners to the same point of the run; only the first one gets its folder."""
    run, error, first = None, None, {}
    if team.rank == 0:
        try:
            build.check_windows(settings, spec, learner.agent)
            run = stack.enter_context(Run(settings, spec, learner, companions=companions))
            meter = run.resume(learner)
            first = {"counters": meter.counters(), "updates": learner.updates}
        except UserError as refused:
            error = refused
    mine = joining.common(settings.flat())
    first = team.broadcast_value(first | {"ended": error is not None, "settings": mine})
    if error:
        raise error
    if first["ended"]:
        raise SystemExit(2)  # the first learner prints the reason
    joining.check_common(first["settings"], mine, team.rank)
    team.broadcast(learner.variables)
    learner.updates = first["updates"]
    if team.rank:
        meter = Meter(
            settings.level.levels,
            spec.frames_per_step,
            first["counters"],
            learner.figures,
            [one.name for one in spec.measures],
            spec.bodies,
        )
    return run, meter


def _receiver(
    settings: Settings,
    spec: EnvironmentSpec,
    agent: Any,
    blocks: Layout,
    team: Team,
    mine: Credentials | None,
    peers: Peers | None,
    of_learners: Identity,
    say: Callable[[str], None],
) -> Receiver:
    """Listens for actors, whose agents are like ``agent``, and for ``peers``.

    ``of_learners`` is what those must have in common with this learner.
    """
    prefix = f"learner {team.rank}: " if team.size > 1 else ""

    def say_prefixed(text: str) -> None:
        say(prefix + text)

    largest = blocks.size(sizes.largest_block(settings, spec.num_bodies))
    server = carriers.server(settings.remote, mine, largest, say_prefixed)
    named = [name for name in settings.remote.actor_hosts.split(",") if name]
    expected = f"{len(named)} actors" if len(named) > 1 else "actors"
    say_prefixed(f"waiting for {expected} at {settings.remote.learner_host}.")
    return Receiver(
        server,
        build.identity(settings, spec, agent, blocks),
        blocks,
        wire.weights_layout(agent),
        capacity=sizes.waiting_unrolls(settings),
        timeout_s=settings.remote.peer_timeout_s,
        say=say_prefixed,
        arrived=peers.arrived if peers else lambda block: block,
        most_unrolls=build.most_unrolls(settings, spec, agent),
        of_learners=of_learners,
    )
