"""From rows and settings to a plan: which actor has which learner, and every command.

Pure functions: nothing is started, looked up or written here.
"""

import dataclasses
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence

from cluster import agents
from cluster import remotes as desktops
from cluster.inventory.hosts_csv import Row
from cluster.model import LOCAL, Here, Host, Member, Mpirun, Place, Plan, cut_off
from cluster.options import Options
from cluster.processes import actor_process, learner_processes, tensorboard
from trainer.settings import checks, sizes
from trainer.settings.config import Settings
from user_error import UserError

# Where things are on a remote host unless its row says otherwise, below the user's home.
REMOTE_DIR = "impala"
REMOTE_PYTHON = ".venv/bin/python"


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
        of_team, spread = learner_processes(agent, team, actors, settings, options, here)
        processes += of_team
        spreads.append(spread)
    processes += desktops.processes(dealt, settings, options, here)
    processes += [
        actor_process(actor, learners, actors, dealt, settings, options, here) for actor in actors
    ]
    if options.tensorboard:
        processes.append(tensorboard(learners[0], settings, here))
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
