"""From rows and settings to a plan: which actor has which learner, and every command.

Pure functions: nothing is started, looked up or written here.
"""

import dataclasses
import itertools
import os.path
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import credentials
from algorithms.feeding import Gradients
from cluster import agents, mpi
from cluster import remotes as desktops
from cluster.inventory.hosts_csv import Row
from cluster.model import LOCAL, Dealt, Here, Host, Member, Mpirun, Place, Plan, Process, cut_off
from cluster.mpi_environment import ENVIRONMENT
from cluster.on_host.states import IN_USE
from cluster.options import Options, passed_on
from trainer.settings import checks, sizes
from trainer.settings.config import Settings
from user_error import UserError

# Where things are on a remote host unless its row says otherwise, below the user's home.
REMOTE_DIR = "impala"
REMOTE_PYTHON = ".venv/bin/python"
# A learner on another host than its mpirun has no keeper that says that the folder is in use.
IN_ITS_FOLDER = (
    f'cd && cd "$0" || exit; [ ! -w {IN_USE} ] || {{ exec 8<>{IN_USE}; flock -s 8; }}; exec "$@"'
)
# TensorBoard imports TensorFlow, which fills its window with messages about the processor.
QUIET = (("TF_CPP_MIN_LOG_LEVEL", "3"),)


def make_plan(
    rows: Sequence[Row],
    settings: Settings,
    options: Options,
    here: Here,
    numbers: Mapping[tuple[Host, int], int] | None = None,
) -> Plan:
    """Links actors to learners round-robin, and makes each process's command.

    ``numbers`` are those of actors that are there already, by host and port.
    """
    settings = agents.with_agents(rows, settings, options.workers_csv_path)
    learners = _members(rows, "learner", here)
    teams = agents.teams(learners)
    actors = _numbered(_members(rows, "actor", here), numbers or {})
    actors = [_linked(actor, list(teams.values())) for actor in actors]
    checks.check_played(settings, [actor.number for actor in actors], options.workers_csv_path)
    fewest = min(map(len, teams.values()), default=1)
    settings = sizes.filling(settings, len(actors), fewest)
    checks.check_started(settings)
    remotes = _members(rows, "remote", here)
    problems = [
        *cut_off((learners[one], actor) for actor in actors for one in actor.linked),
        *_clashing([*learners, *actors, *remotes]),
    ]
    if problems:
        lines = [f"{options.workers_csv_path}:{line}: {what}" for line, what in sorted(problems)]
        raise UserError("\n".join(lines))
    dealt = desktops.deal(remotes, actors, settings, options)
    processes, spreads = [], []
    for agent, team in teams.items():
        of_team, spread = _learner_processes(agent, team, actors, settings, options, here)
        processes += of_team
        spreads.append(spread)
    processes += desktops.processes(dealt, settings, options, here)
    processes += [
        _actor_process(actor, learners, actors, dealt, settings, options, here) for actor in actors
    ]
    if options.tensorboard:
        processes.append(_tensorboard(learners[0], settings, here))
    spread, folder = _joined(spreads, options), settings.run_folder
    return Plan(tuple(learners), tuple(actors), tuple(processes), spread, folder, dealt)


def _linked(actor: Member, teams: Sequence[Sequence[Member]]) -> Member:
    """The actor with a learner of each team."""
    first, *others = (team[actor.number % len(team)].learner for team in teams)
    return dataclasses.replace(actor, learner=first, others=tuple(others))


def _joined(spreads: Sequence[Mpirun], options: Options) -> Mpirun:
    """What the ``mpirun`` of all teams need here."""
    needed = [one for one in spreads if one.files]
    if len(needed) > 1 and any(one.by_password for one in needed):
        raise UserError(
            f"{options.workers_csv_path}: learners of several agents, each on several hosts, need "
            "logins by key; with passwords, give each agent the learners of one host."
        )
    if len(needed) < 2:
        return needed[0] if needed else Mpirun()
    return Mpirun(tuple(file for one in needed for file in one.files), needed[0].env)


def _members(rows: Sequence[Row], job: str, here: Here) -> list[Member]:
    members = [(row, port) for row in rows if row.job == job for port in row.ports]
    return [
        Member(f"{job}-{index}", _place(row, here), row, port, index)
        for index, (row, port) in enumerate(members)
    ]


def _numbered(actors: list[Member], taken: Mapping[tuple[Host, int], int]) -> list[Member]:
    """The actors, each with its number; those without one get the lowest that are free."""
    free = (number for number in itertools.count() if number not in set(taken.values()))
    numbers = [taken.get((actor.host, actor.tf_port)) for actor in actors]
    names = [f"actor-{next(free) if number is None else number}" for number in numbers]
    return [
        dataclasses.replace(actor, name=name) for actor, name in zip(actors, names, strict=True)
    ]


def _place(row: Row, here: Here) -> Place:
    host = host_of_row(row, here)
    if host.is_local:
        return Place(host, here.folder, row.python or here.python)
    return Place(host, row.remote_dir or REMOTE_DIR, row.python or REMOTE_PYTHON)


def host_of_row(row: Row, here: Here) -> Host:
    """This machine, or another with the login that the row gives."""
    if not row.has_ssh and here.is_own_address(row.ip):
        return LOCAL
    return Host(row.ip, row.ssh_port or 22, row.ssh_username or here.username, row.ssh_key)


def without_learners_on(silent: Collection[Host], rows: Sequence[Row], here: Here) -> list[Row]:
    """The rows without learners on unusable hosts, which would end all other learners too.

    If no other learner is left, or none of an agent, all rows.
    """
    left = [row for row in rows if row.job != "learner" or host_of_row(row, here) not in silent]
    agents_of, agents_left = (
        {row.agent for row in some if row.job == "learner"} for some in (rows, left)
    )
    return left if agents_left == agents_of else list(rows)


def _clashing(members: list[Member]) -> Iterator[tuple[int, str]]:
    """Ports that are used twice on this machine, which the CSV may call by several addresses."""
    owners: dict[int, Member] = {}
    reported: set[int] = set()
    for member in members:
        for port in member.ports if member.host.is_local else ():
            first = owners.setdefault(port, member)
            if first.row.ip != member.row.ip and member.row.line not in reported:
                reported.add(member.row.line)
                yield (
                    member.row.line,
                    f"column tf_port: port {port} is used by line {first.row.line}: "
                    f"{first.row.ip} and {member.row.ip} are both this machine.",
                )


def _learner_processes(
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


def _actor_process(
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


def _tensorboard(first: Member, settings: Settings, here: Here) -> Process:
    process = _process(first, [], here, ())
    argv = (process.argv[0], "-m", "tensorboard.main", f"--logdir={settings.run_folder}")
    env = (*QUIET, *process.env)
    return dataclasses.replace(process, name="tensorboard", job="tensorboard", argv=argv, env=env)
