"""The processes of a plan, each with its whole command: learners, actors, TensorBoard.

Pure functions, as in ``plan``.
"""

import dataclasses
import os.path
import re
from collections.abc import Sequence
from typing import Any

import credentials
from algorithms.feeding import Gradients
from cluster import mpi
from cluster import remotes as desktops
from cluster.model import LOCAL, Dealt, Here, Host, Member, Mpirun, Place, Process
from cluster.mpi_environment import ENVIRONMENT
from cluster.on_host.states import IN_USE
from cluster.options import Options, passed_on
from trainer.settings.config import Settings

# A learner on another host than its mpirun has no keeper that says that the folder is in use.
IN_ITS_FOLDER = (
    'unset CDPATH; cd && cd "$0" || exit; '
    f'[ ! -w {IN_USE} ] || {{ exec 8<>{IN_USE}; flock -s 8; }}; exec "$@"'
)
# TensorBoard imports TensorFlow, which fills its window with messages about the processor.
QUIET = (("TF_CPP_MIN_LOG_LEVEL", "3"),)


def learner_processes(
    agent: str,
    learners: list[Member],
    actors: list[Member],
    settings: Settings,
    options: Options,
    here: Here,
) -> tuple[list[Process], Mpirun]:
    """The processes of a team of learners; ``agent`` is whom they train, if there are several."""
    exchange = len(learners) > 1 and isinstance(settings.algorithm.feeding, Gradients)
    peers = ",".join(learner.address for learner in learners) if exchange else ""
    ranks = [
        # Learners that exchange gradients have weights of their own, and each its checkpoints.
        _rank(learner, actors, settings, here, peers, own_folder=bool(peers and index))
        for index, learner in enumerate(learners)
    ]
    if len(ranks) == 1 or exchange:
        return [
            dataclasses.replace(rank, restarts=options.restart_learners) for rank in ranks
        ], Mpirun()
    hosts = list(dict.fromkeys(learner.host for learner in learners))
    # On one host, mpirun runs there. Otherwise here, where the keys to all of them are.
    where = hosts[0] if len(hosts) == 1 else LOCAL
    names = _names_for_mpirun(hosts, where, here)
    spread = Mpirun()
    if len(hosts) > 1:
        folder = os.path.join(here.folder, settings.run_folder, "cluster")
        logins = _by_password(learners, options)
        of_hosts = [(names[rank.host], rank.host) for rank in ranks]
        spread = mpi.spread(folder, of_hosts, logins, here, agent)
    place = Place(LOCAL, here.folder, here.python) if where.is_local else learners[0].place
    mpirun = Process(
        name=f"learners-{agent}" if agent else "learners",
        job="learner",
        place=place,
        argv=mpi.command(
            [(names[rank.host], _rank_argv(rank, place)) for rank in ranks],
            [path for path, _ in spread.files],
            options,
        ),
        env=(*ENVIRONMENT.items(), *spread.env),
        parts=tuple(rank.name for rank in ranks),
        restarts=options.restart_learners,
    )
    return [mpirun], spread


def _by_password(learners: list[Member], options: Options) -> set[Host]:
    """The learners' hosts with login by password."""
    for_others = bool(options.ssh_password_env or options.ask_ssh_password)
    return {
        learner.host
        for learner in learners
        if not learner.host.is_local
        and not learner.host.key
        and (for_others or learner.row.ssh_password)
    }


def _names_for_mpirun(hosts: list[Host], where: Host, here: Here) -> dict[Host, str]:
    """What mpirun calls each host: its address, or a name that only the SSH configuration knows.

    mpirun cuts a name at its first dot, takes what follows a colon for a number of slots, and
    starts locally what has an address of its own machine, such as a container that shares it.
    """
    names: dict[Host, str] = {}
    for index, host in enumerate(hosts):
        shared = sum(other.ip == host.ip for other in hosts) > 1
        if shared or not re.fullmatch("[0-9.]+", host.ip) or here.is_own_address(host.ip):
            name = f"impala-{index}-{re.sub('[^A-Za-z0-9]+', '-', host.ip).strip('-')}"
        else:
            name = host.ip
        names[host] = "localhost" if host == where else name
    return names


def _rank_argv(rank: Process, place: Place) -> tuple[str, ...]:
    """A learner's command under mpirun, which knows neither its environment nor its folder."""
    env = tuple(f"{name}={value}" for name, value in rank.env)
    argv = ("env", *env, *rank.argv) if env else rank.argv
    if (rank.host, rank.place.folder) == (place.host, place.folder):
        return argv
    return ("sh", "-c", IN_ITS_FOLDER, rank.place.folder, *argv)


def _rank(
    learner: Member,
    actors: list[Member],
    settings: Settings,
    here: Here,
    peers: str,
    own_folder: bool,
) -> Process:
    own = [actor.address for actor in actors if learner.learner in actor.linked]
    flags = passed_on(
        settings,
        job_name="learner",
        task=0,
        learner_host=learner.address,
        actor_hosts=",".join(own),
        **({"agent": learner.row.agent} if learner.row.agent else {}),
        **({"peers": peers} if peers else {}),
        logdir=f"{settings.run_folder}/{learner.name}" if own_folder else settings.run_folder,
        **_credentials(settings, credentials.LEARNER),
    )
    devices = learner.row.cuda_visible_devices
    return _process(learner, flags, here, (("CUDA_VISIBLE_DEVICES", devices),) if devices else ())


def actor_process(
    actor: Member,
    learners: list[Member],
    actors: list[Member],
    dealt: Sequence[Dealt],
    settings: Settings,
    options: Options,
    here: Here,
) -> Process:
    changed: dict[str, Any] = {} if actor.row.envs is None else {"envs_per_actor": actor.row.envs}
    changed["actors_on_host"] = sum(other.host == actor.host for other in actors)
    changed |= desktops.flags_of_actors(dealt, settings)
    flags = passed_on(
        settings,
        job_name="actor",
        task=actor.number,
        learner_host=",".join(
            f"{one.row.agent}={one.address}" if one.row.agent else one.address
            for one in (learners[index] for index in actor.linked)
        ),
        logdir=settings.run_folder,
        **_credentials(settings, credentials.ACTOR),
        **changed,
    )
    # An actor that sees a GPU would take memory there that its learner needs.
    devices = actor.row.cuda_visible_devices or "-1"
    process = _process(actor, flags, here, (("CUDA_VISIBLE_DEVICES", devices),))
    return dataclasses.replace(process, restarts=options.restart_actors)


def _credentials(settings: Settings, name: str) -> dict[str, str]:
    """The flag for the file that ``entrusting`` puts there."""
    if settings.remote.transport != "secure":
        return {}
    return {"credentials": f"{settings.credentials_folder}/{name}"}


def _process(
    member: Member, flags: list[str], here: Here, env: tuple[tuple[str, str], ...]
) -> Process:
    script = here.script if member.host.is_local else "experiment.py"
    return Process(
        name=member.name,
        job=member.row.job,
        place=member.place,
        argv=(member.place.python, script, *flags),
        env=(*member.row.env, *env),
    )


def tensorboard(first: Member, settings: Settings, here: Here) -> Process:
    process = _process(first, [], here, ())
    argv = (process.argv[0], "-m", "tensorboard.main", f"--logdir={settings.run_folder}")
    env = (*QUIET, *process.env)
    return dataclasses.replace(process, name="tensorboard", job="tensorboard", argv=argv, env=env)
