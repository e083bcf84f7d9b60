"""Looking at all hosts of a plan before anything is started on them."""

import time
from pathlib import Path
from typing import Any

from rich import box
from rich.progress import Progress
from rich.table import Table

from cluster import show
from cluster.hosts import Hosts, at_once
from cluster.model import Member, Place, Plan
from cluster.on_host.checks import version
from cluster.ssh import HostFailed

OPEN = "open that port in the firewalls between them, or mend column ip"
Wrong = list[tuple[str, str, str]]


def check(plan: Plan, hosts: Hosts, project: Path) -> Wrong:
    """What is wrong, as (host, problem, remedy), from all hosts at once."""
    requests = _requests(plan, project)
    shown = show.console()
    with Progress(console=shown, transient=True, disable=not shown.is_terminal) as progress:
        task = progress.add_task("looking at hosts", total=len(requests))

        def one(place: Place) -> dict[str, Any]:
            try:
                return hosts.ask(place, requests[place])
            finally:
                progress.advance(task)

        replies = at_once(one, requests)
    wrong: Wrong = []
    for place, reply in replies.items():
        if isinstance(reply, HostFailed):
            wrong.append((str(place.host), reply.problem, reply.remedy))
        else:
            wrong += [(str(place.host), what, remedy) for what, remedy in reply["problems"]]
    if not wrong:
        wrong = _unreached(plan, hosts)
    return list(dict.fromkeys(wrong))


def _unreached(plan: Plan, hosts: Hosts) -> Wrong:
    """Learners' ports that actors on other hosts cannot reach: each listens for a moment."""
    callers: dict[Place, dict[int, set[Place]]] = {}
    called: dict[Place, set[tuple[str, int]]] = {}
    for actor in plan.actors:
        learner = plan.learners[actor.learner]
        if actor.host != learner.host:
            ports = callers.setdefault(learner.place, {})
            ports.setdefault(learner.tf_port, set()).add(actor.place)
            called.setdefault(actor.place, set()).add((learner.row.ip, learner.tf_port))
    requests: dict[tuple[Place, str], dict[str, Any]] = {}
    for place, ports in callers.items():
        expected = [(port, len(those)) for port, those in ports.items()]
        requests[place, "listen"] = {"expected": expected}
    for place, addresses in called.items():
        requests[place, "reach"] = {"addresses": sorted(addresses)}
    replies = at_once(
        lambda key: hosts.ask(
            key[0],
            {"do": key[1], "folder": key[0].folder, "logdir": plan.logdir, **requests[key]},
        ),
        requests,
    )
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
    """What is wrong with each host, and how to mend it."""
    shown = Table("host", "what is wrong", "how to mend it", box=box.SIMPLE)
    for row in wrong:
        shown.add_row(*row)
    return shown


def _requests(plan: Plan, project: Path) -> dict[Place, dict[str, Any]]:
    members: dict[Place, list[Member]] = {}
    for member in (*plan.learners, *plan.actors):
        members.setdefault(member.place, []).append(member)
    for process in plan.processes:
        members.setdefault(process.place, [])
    here = version(project)
    with_mpirun = {one.host for one in plan.learners if len(plan.learners) > 1}
    return {
        place: {
            "do": "check",
            "folder": place.folder,
            "logdir": plan.logdir,
            "project": str(project) if place.host.is_local else "",
            "version": here,
            "pythons": [place.python],
            "needs": ["tensorflow", *(["horovod"] if place.host in with_mpirun else [])],
            "commands": ["mpirun"] if place.host in with_mpirun else [],
            "ports": [one.tf_port for one in there if one.row.job == "learner"],
            "gpus": [one.row.cuda_visible_devices for one in there],
            "now": time.time(),
        }
        for place, there in members.items()
    }
