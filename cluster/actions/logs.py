"""The logs of a run from all hosts, each line after the name of its process."""

import time
from collections.abc import Iterator
from typing import Any

from cluster.hosts import Hosts, places, request
from cluster.model import Place
from cluster.on_host.keeper import TAG
from cluster.record import Part, Record
from cluster.ssh.failures import HostFailed
from user_error import UserError

LOOK_EVERY_S = 1.0
# How much of the end of each log is shown; more if it is only one.
SHOWN_BYTES, SHOWN_ALONE_BYTES = 2048, 65536


def written(part: Part, line: str) -> Iterator[tuple[str, str]]:
    """The writers and parts of a line in a log: under ``mpirun``, the learners that it tags."""
    before, *tagged = TAG.split(line) if part.parts else [line]
    if before:
        yield part.name, before
    for rank, text in zip(tagged[::2], tagged[1::2], strict=True):
        if text and int(rank) < len(part.parts):
            yield part.parts[int(rank)], text


def logs(record: Record, hosts: Hosts, name: str, follow: bool) -> int:
    """Prints the newest lines of all logs, or of one; ``follow``: until all processes end."""
    wanted = [part for part in record.parts if name in ("", part.name, *part.parts)]
    if not wanted:
        known = ", ".join(one for part in record.parts for one in part.parts or (part.name,))
        raise UserError(f"--name={name}: the run has no such process; expected one of {known}.")
    reader = _Reader(record, hosts, wanted, name)
    while reader.print_new() and follow:
        time.sleep(LOOK_EVERY_S)
    return int(bool(reader.silent))


class _Reader:
    """Reads the logs, and keeps how far each has been read."""

    def __init__(self, record: Record, hosts: Hosts, wanted: list[Part], only: str):
        self._record = record
        self._hosts = hosts
        self._only = only
        self._parts = {part.name: part for part in wanted}
        self._offsets = dict.fromkeys(self._parts, -(SHOWN_ALONE_BYTES if only else SHOWN_BYTES))
        self.silent: dict[Place, str] = {}  # hosts that cannot be read from, and why

    def print_new(self) -> bool:
        """Prints what is new; returns whether more may come, not only from TensorBoard."""
        more = False
        for where, reply in self._hosts.ask_all(self._requests()).items():
            if isinstance(reply, HostFailed):
                if self.silent.get(where) != str(reply):
                    print(f"{where.host}: {reply}", flush=True)
                self.silent[where] = str(reply)
                more = True
                continue
            self.silent.pop(where, None)
            alive = {self._parts[name].job for name in reply["alive"]}
            more = more or bool(alive - {"tensorboard"} or (alive and self._only))
            for name, log in reply["logs"].items():
                self._offsets[name] = log["offset"]
                self._print(self._parts[name], log["text"])
        return more

    def _requests(self) -> dict[Place, dict[str, Any]]:
        requests = {}
        for where, parts in places(self._record).items():
            offsets = {p.name: self._offsets[p.name] for p in parts if p.name in self._parts}
            if offsets:
                requests[where] = request(self._record, "tail", where, parts, offsets=offsets)
        return requests

    def _print(self, part: Part, text: str) -> None:
        for line in text.splitlines():
            for writer, words in written(part, line):
                if self._only in ("", part.name, writer):
                    print(f"{writer:<12} {words}", flush=True)
