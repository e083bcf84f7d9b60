"""Stops a run: everything that it started, on every host that can be reached."""

from collections import Counter
from typing import Any

from cluster.actions.next_steps import print_left
from cluster.backends.ssh.hosts import Hosts, places, request
from cluster.model import Host, Place
from cluster.on_host.states import is_living
from cluster.options import Options
from cluster.record import Part, Record, counted
from cluster.ssh.failures import HostFailed


def stop(record: Record, options: Options, hosts: Hosts) -> int:
    """Ends every process of the run; names those that may be left, and then returns 1."""
    first, last = _turns(record)
    # Once learners have ended on their own hosts, their mpirun ends before its turn.
    there = _alive(record, last, hosts) if first else set()
    replies: dict[Place, dict[str, Any] | HostFailed] = {}
    for turn in (first, last):
        replies |= hosts.ask_all(_requests(record, turn, options.stop_grace_s))
    answers = {
        place: reply for place, reply in replies.items() if not isinstance(reply, HostFailed)
    }
    left = [
        f"  {place.host}: {reply}"
        for place, reply in replies.items()
        if isinstance(reply, HostFailed)
    ]
    left += [
        f"  {place.host}: processes {reply['left']} could not be ended"
        for place, reply in answers.items()
        if reply["left"]
    ]
    stopped = _stopped(record, answers, there)
    killed = sum(reply["killed"] for reply in answers.values())
    if stopped or killed or any(reply["strays"] for reply in answers.values()):
        what = stopped or "the rest of the run"
        print(f"Stopped {what}" + (f"; {killed} had to be killed." if killed else "."))
    elif not left:
        print("Nothing to stop: no process of the run is left.")
    if left:
        print_left(["Not stopped:", *left], options.action)
    return int(bool(left))


def _requests(
    record: Record, turn: dict[Place, list[Part]], grace_s: float
) -> dict[Place, dict[str, Any]]:
    """One request for each host, to the first of its folders, with the names in all of them."""
    by_host: dict[Host, list[Place]] = {}
    for where in turn:
        by_host.setdefault(where.host, []).append(where)
    return {
        first: request(
            record,
            "stop",
            first,
            turn[first],
            grace_s=grace_s,
            others=[(other.folder, [part.name for part in turn[other]]) for other in others],
        )
        for first, *others in by_host.values()
    }


def _turns(record: Record) -> tuple[dict[Place, list[Part]], dict[Place, list[Part]]]:
    """The places to stop first, and those to stop then.

    Learners come before an mpirun on another host: it would signal them as well, and a learner
    that is signalled again after 5 s ends before it has saved.
    """
    everywhere = places(record)
    with_mpirun = {part.host for part in record.parts if part.parts}
    if {one.host for one in record.listeners} <= with_mpirun or not with_mpirun:
        return {}, everywhere
    first = {where: parts for where, parts in everywhere.items() if where.host not in with_mpirun}
    return first, {where: everywhere[where] for where in everywhere if where not in first}


def _alive(record: Record, asked: dict[Place, list[Part]], hosts: Hosts) -> set[str]:
    """The processes that are running there now."""
    replies = hosts.ask_all(
        {where: request(record, "status", where, parts) for where, parts in asked.items()}
    )
    return {
        name
        for reply in replies.values()
        if not isinstance(reply, HostFailed)
        for name, state in reply["states"].items()
        if is_living(state["state"])
    }


def _stopped(record: Record, answers: dict[Place, dict[str, Any]], there: set[str]) -> str:
    """How many processes of each kind were stopped, in words."""
    jobs: Counter[str] = Counter()
    names = there.union(*(reply["stopped"] for reply in answers.values()))
    for part in record.parts:
        if part.name in names:
            jobs[part.job] += len(part.parts) or 1
    if not jobs["learner"]:
        # Their mpirun is gone, for example after their host was unreachable.
        learning = {one.host for one in record.listeners}
        strays = [reply["strays"] for place, reply in answers.items() if place.host in learning]
        jobs["learner"] += sum(strays)
    return counted(jobs)
