"""Asks the hosts of a run for the state of its processes."""

import time
from typing import Any

from cluster.actions.seen import UNSEEN, Seen, SeenPart, figures_in
from cluster.backends.ssh.hosts import Hosts, places, request
from cluster.record import Part, Record
from cluster.ssh.failures import HostFailed

LOOK_EVERY_S = 0.5


def look(record: Record, hosts: Hosts) -> Seen:
    """Asks every host of the run for the state of its processes."""
    by_place = places(record)
    listeners = {
        where: [one for one in record.listeners if one.place == where] for where in by_place
    }
    replies = hosts.ask_all(
        {
            where: request(
                record,
                "status",
                where,
                parts,
                ports=[one.port for one in listeners[where]],
                reporting=[record.folder_of(one) for one in listeners[where]],
            )
            for where, parts in by_place.items()
        }
    )
    seen = Seen([], {}, {}, {})
    for where, reply in replies.items():
        if isinstance(reply, HostFailed):
            state = f"{UNSEEN}{reply.problem}"
            seen.parts.extend(SeenPart(part, state) for part in by_place[where])
            seen.listening.update(dict.fromkeys(listeners[where], False))
            seen.unseen.update((one.name, state) for one in listeners[where])
            continue
        seen.parts.extend(_seen(part, reply["states"][part.name]) for part in by_place[where])
        seen.listening.update(zip(listeners[where], reply["listening"], strict=True))
        for one in listeners[where]:
            if figures := figures_in(reply["metrics"][record.folder_of(one)]):
                seen.figures[one.name] = figures
    seen.parts.sort(key=lambda one: record.parts.index(one.part))
    return seen


def find_learners(record: Record, hosts: Hosts, patience_s: float) -> Seen:
    """The run once a learner is seen alive, or none is merely out of sight, for so long."""
    silence = Silence(patience_s)
    while True:
        seen = look(record, hosts)
        learners = {one.name for one in seen.parts if one.part.job == "learner"}
        if seen.is_learning or not learners & silence.passing(seen):
            return seen
        time.sleep(LOOK_EVERY_S)


class Silence:
    """Since when each process's host has not answered."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._since: dict[str, float] = {}

    def passing(self, seen: Seen) -> set[str]:
        """The processes whose hosts do not answer now, but may again."""
        now = time.monotonic()
        unseen = {one.name for one in seen.parts if one.is_unseen}
        self._since = {name: self._since.get(name, now) for name in unseen}
        return {name for name, since in self._since.items() if now - since < self._patience_s}


def _seen(part: Part, state: dict[str, Any]) -> SeenPart:
    return SeenPart(
        part,
        state["state"],
        state["since"],
        state["restarts"],
        tuple(state["last_lines"]),
        state["silent_s"],
    )
