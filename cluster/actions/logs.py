"""The logs of a run from all hosts, each line after the name of its process."""

import time
from collections.abc import Iterator

from cluster.backends.backend import Backend
from cluster.on_host.keeper import TAG
from cluster.record import OUTLAST, Part, Record, again
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


def logs(record: Record, backend: Backend, name: str, follow: bool) -> int:
    """Prints the newest lines of all logs, or of one; ``follow``: until all processes end."""
    reader = _Reader(record, backend, name)
    while reader.print_new() and follow:
        time.sleep(LOOK_EVERY_S)
        reader.take(again(record))
    return int(bool(reader.silent))


class _Reader:
    """Reads the logs, and keeps how far each has been read."""

    def __init__(self, record: Record, backend: Backend, only: str):
        """``UserError``: the run has no process ``only``."""
        self._backend = backend
        self._only = only
        self._offsets: dict[str, int] = {}
        self.silent: dict[str, str] = {}  # hosts that cannot be read from, and why
        self.take(record)
        if not self._parts:
            parts = backend.parts(record)
            known = ", ".join(one for part in parts for one in part.parts or (part.name,))
            raise UserError(f"--name={only}: the run has no such process; expected one of {known}.")

    def take(self, record: Record) -> None:
        """Reads this record's processes from now on, those that are known from where it was."""
        self._record = record
        parts = self._backend.parts(record)
        wanted = [part for part in parts if self._only in ("", part.name, *part.parts)]
        self._parts = {part.name: part for part in wanted}
        begin = -(SHOWN_ALONE_BYTES if self._only else SHOWN_BYTES)
        self._offsets = {name: self._offsets.get(name, begin) for name in self._parts}

    def print_new(self) -> bool:
        """Prints what is new; returns whether more may come of a run that has not ended."""
        tails = self._backend.tail(self._record, self._offsets)
        for host, problem in tails.silent.items():
            if self.silent.get(host) != problem:
                print(f"{host}: {problem}", flush=True)
        self.silent = tails.silent
        for name, (text, offset) in tails.texts.items():
            self._offsets[name] = offset
            self._print(self._parts[name], text)
        alive = {self._parts[name].job for name in tails.alive}
        return bool(tails.silent or (alive if self._only else alive - set(OUTLAST)))

    def _print(self, part: Part, text: str) -> None:
        for line in text.splitlines():
            for writer, words in written(part, line):
                if self._only in ("", part.name, writer):
                    print(f"{writer:<12} {words}", flush=True)
