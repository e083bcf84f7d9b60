"""Checks all hosts of a plan before anything is started on them."""

import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich import box
from rich.progress import Progress
from rich.table import Table

from cluster import show
from cluster.backends.ssh.hosts import AGAIN_S, AT_ONCE, Hosts, at_once, patiently
from cluster.model import Host, Member, Place, Plan
from cluster.on_host.checks import CODE, version
from cluster.record import Record
from cluster.ssh.failures import HostFailed

# Hosts need the same versions of these: they make the data that hosts send each other.
PACKAGES = ("tensorflow", "dm-sonnet", "gymnasium", "ale-py")
OF_REMOTES = ("gymnasium", "ale-py", "websockets", "pygame-ce")
DESKTOP = "Xtigervnc"
MOST_SKEW_S = 60
OPEN = "open that port in the firewalls between them, or fix column ip"
Wrong = list[tuple[str, str, str]]


def check(
    plan: Plan,
    hosts: Hosts,
    project: Path,
    session: str,
    before: Record | None = None,
    patience_s: float = 0.0,
    listening: bool = False,
) -> tuple[Wrong, set[Host]]:
    """Problems of all hosts, as (host, problem, remedy), and the hosts that did not answer.

    The ports and the tmux session of a run ``before``, which will be stopped, count as free.
    ``listening``: the learners are running, and only the actors are to be started.
    """
    requests = _requests(plan, project, session, before, listening)
    shown = show.console()
    with Progress(console=shown, transient=True, disable=not shown.is_terminal) as progress:
        task = progress.add_task("checking hosts", total=len(requests))
        end = time.monotonic() + patience_s

        def one(place: Place) -> dict[str, Any]:
            asked = time.time()
            reply = hosts.ask(place, requests[place])
            progress.advance(task)
            return {**reply, "asked": asked, "answered": time.time()}

        replies = patiently(one, requests, patience_s, lasting=False)
    wrong: Wrong = []
    for place, reply in replies.items():
        if isinstance(reply, HostFailed):
            wrong.append((str(place.host), reply.problem, reply.remedy))
        else:
            problems = [*reply["problems"], *_clock(reply)]
            wrong += [(str(place.host), what, remedy) for what, remedy in problems]
    silent = {place for place, reply in replies.items() if isinstance(reply, HostFailed)}
    wrong += _unreached(plan, hosts, set(replies) - silent, end, listening)
    return list(dict.fromkeys(wrong)), {place.host for place in silent}


def _clock(reply: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The skew of a host's clock, which must fit some moment between request and answer."""
    ahead, behind = reply["now"] - reply["answered"], reply["asked"] - reply["now"]
    if max(ahead, behind) > MOST_SKEW_S:
        skew = ahead if ahead > 0 else -behind
        yield f"its clock is {skew:+.0f} s off", "synchronize it, for example with chrony"


def _unreached(
    plan: Plan, hosts: Hosts, answering: set[Place], end: float, listening: bool
) -> Wrong:
    """Learners' ports that actors on other hosts cannot reach: each listens for a moment."""
    called: dict[Place, set[Member]] = {}
    links = [(actor, plan.learners[one]) for actor in plan.actors for one in actor.linked]
    for actor, learner in links:
        asked = {actor.place} if listening else {actor.place, learner.place}
        if actor.host != learner.host and asked <= answering:
            called.setdefault(actor.place, set()).add(learner)
    wrong: Wrong = []
    # In turns of so many callers; in each, all at once, as the listeners do not stay for long.
    places = list(called)
    for start in range(0, len(places), AT_ONCE):
        turn = places[start : start + AT_ONCE]
        requests = _reaching({place: called[place] for place in turn}, listening)
        wrong += _asked(requests, plan, hosts, end)
    return wrong


def _reaching(
    called: dict[Place, set[Member]], listening: bool
) -> dict[tuple[Place, str], dict[str, Any]]:
    """The requests to those who call learners, and, unless they are running, to the learners'."""
    requests: dict[tuple[Place, str], dict[str, Any]] = {}
    callers = Counter(learner for learners in called.values() for learner in learners)
    for learner, count in callers.items() if not listening else ():
        expected = requests.setdefault((learner.place, "listen"), {"expected": []})["expected"]
        expected.append((learner.tf_port, count))
    for place, learners in called.items():
        addresses = sorted((one.row.ip, one.tf_port) for one in learners)
        requests[place, "reach"] = {"addresses": addresses}
    return requests


def _asked(
    requests: dict[tuple[Place, str], dict[str, Any]], plan: Plan, hosts: Hosts, end: float
) -> Wrong:
    """What cannot be reached; asked again until ``end`` where a failure may pass."""

    def ask(key: tuple[Place, str]) -> dict[str, Any]:
        where = {"folder": key[0].folder, "logdir": plan.logdir}
        return hosts.ask(key[0], {"do": key[1], **where, **requests[key]})

    while True:
        replies = at_once(ask, requests, most=len(requests) or 1, lasting=False)
        failed = [reply for reply in replies.values() if isinstance(reply, HostFailed)]
        if not any(one.passing for one in failed) or time.monotonic() >= end:
            break
        time.sleep(AGAIN_S)
    wrong: Wrong = []
    for (place, do), reply in replies.items():
        if isinstance(reply, HostFailed):
            wrong.append((str(place.host), reply.problem, reply.remedy))
        elif do == "reach":
            wrong += [
                (str(place.host), f"cannot reach the learner's {ip}:{port}", OPEN)
                for ip, port in reply["unreached"]
            ]
    return wrong


def table(wrong: Wrong) -> Table:
    """The problems of each host, and how to fix them."""
    shown = Table("host", "problem", "how to fix it", box=box.SIMPLE)
    for row in wrong:
        shown.add_row(*row)
    return shown


def _requests(
    plan: Plan, project: Path, session: str, before: Record | None, listening: bool
) -> dict[Place, dict[str, Any]]:
    taken = _ports_of(before) if before else set()
    members: dict[Place, list[Member]] = {}
    for member in plan.members:
        if listening and member.row.job == "learner":
            continue
        members.setdefault(member.place, []).append(member)
    for process in plan.processes:
        members.setdefault(process.place, [])
    # By name: other files there, such as those deleted here since, do not matter.
    code = sorted(path.name for name in CODE for path in project.glob(name))
    here = version(project, code)
    pins = _pins(project)
    return {
        place: {
            "do": "check",
            "folder": place.folder,
            "logdir": plan.logdir,
            "project": str(project) if place.host.is_local else "",
            "version": here,
            "code": code,
            "python": place.python,
            "packages": {name: pins.get(name, "") for name in _packages(plan, there)},
            "commands": _commands(plan, place),
            "tmux": session,
            "replaced_run": before.run_id if before else "",
            "ports": [
                port
                for one in there
                if one.row.job != "actor"
                for port in one.ports
                if (one.host, port) not in taken
            ],
            "gpus": [one.row.cuda_visible_devices for one in there],
        }
        for place, there in members.items()
    }


def _ports_of(run: Record) -> set[tuple[Host, int]]:
    """What a run that will be stopped listens at."""
    remotes = [one for one in run.parts if one.job == "remote"]
    return {
        *((one.host, one.port) for one in run.listeners),
        *((one.host, one.port + more) for one in remotes for more in (0, 1)),
    }


def _packages(plan: Plan, there: list[Member]) -> list[str]:
    """The packages that the processes there need, except for mpirun itself."""
    if not there:
        return []
    jobs = {one.row.job for one in there}
    packages = dict.fromkeys(
        [*(PACKAGES if jobs != {"remote"} else ()), *(OF_REMOTES if "remote" in jobs else ())]
    )
    return [*packages, *(["horovod"] if set(plan.ranks) & set(there) else [])]


def _commands(plan: Plan, place: Place) -> list[str]:
    """mpirun where it runs and where it starts learners; ssh where it starts them elsewhere."""
    keepers = {process.host for process in plan.processes if process.parts}
    learning = {one.host for one in plan.ranks}
    commands = ["mpirun"] if place.host in keepers | learning else []
    commands += [DESKTOP] if any(one.remote.place == place for one in plan.remotes) else []
    return commands + (["ssh"] if place.host in keepers and learning - keepers else [])


def _pins(project: Path) -> dict[str, str]:
    """The version of each package that the lock files name."""
    locks = sorted((project / "requirements").glob("*.txt"))
    lines = [line for lock in locks for line in lock.read_text().splitlines()]
    found = [re.match(r"([A-Za-z0-9._-]+)==([^ \\;]+)", line) for line in lines]
    return {match[1]: match[2] for match in found if match}
