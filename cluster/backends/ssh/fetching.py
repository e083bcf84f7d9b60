"""Copies a run's results from the host of each agent's first learner to this machine.

Piece by piece, beside the file and then in its place: a copy that was cut off goes on where it
stopped, and a file of that name is either the former one or the whole new one.
"""

import base64
import contextlib
import dataclasses
import hashlib
import os
import shutil
import uuid
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from cluster import show
from cluster.backends.ssh import progress
from cluster.backends.ssh.hosts import Hosts, request
from cluster.model import Place
from cluster.on_host.results import AT_ONCE, LEFT, agent_of
from cluster.record import Record
from cluster.ssh.failures import HostFailed
from user_error import UserError

# Small enough for a slow link: a host has half a minute for each answer.
PIECE_BYTES = 1 << 20
# By a slow disk, as a host reads a whole file for its digest.
READ_A_SECOND = 20e6
# A learner that is running may write a file while it is copied, so that it must be copied again.
PASSES = 3


@dataclasses.dataclass(frozen=True)
class File:
    """A file of the results: below the run's folder, as it was when it was listed."""

    name: str
    size: int
    changed_ns: int

    def is_at(self, path: Path) -> bool:
        """Whether the file here is the same."""
        with contextlib.suppress(OSError):
            there = path.stat()
            # Not every file system keeps the last digits.
            return (there.st_size, there.st_mtime_ns // 1000) == (
                self.size,
                self.changed_ns // 1000,
            )
        return False


class _Copy:
    """The copying from one place into one folder, of what is learned there."""

    def __init__(
        self, place: Place, record: Record, hosts: Hosts, folder: str, which: str, patience_s: float
    ):
        self.place = place
        self._record = record
        self._hosts = hosts
        self._folder = Path(folder)
        self._which = which
        self._patience_s = patience_s
        # What else lies there is a copy from before, of a run of other hosts.
        self._own = {one.agent for one in record.firsts if one.place == place}
        self._others = {one.agent for one in record.firsts} - self._own
        self._has_rest = place == record.firsts[0].place
        self.copied: dict[str, int] = {}
        self.there: set[str] = set()

    @property
    def whose(self) -> str:
        """The learner that writes there, in words."""
        return " and ".join(
            f"The first learner of {one}" if one else "The first learner"
            for one in sorted(self._own)
        )

    def is_shared(self) -> bool:
        """Whether that host sees this very folder: a copy would replace what it is of."""
        mark = self._folder / "cluster" / f".{uuid.uuid4().hex}"
        if not mark.parent.is_dir():  # there, it has the run's records
            return False
        mark.touch()
        try:
            return bool(self._ask("digest", name=f"cluster/{mark.name}", size=0)["digest"])
        finally:
            mark.unlink()

    def check(self) -> None:
        """A ``UserError`` if what is here would be replaced by what was trained less."""
        sizes = {one.name: one.size for one in self._listed()}
        progress.must_not_be_behind(self._folder, sizes, str(self.place.host), self._ask)

    def run(self) -> list[str]:
        """Copies what is not here yet; returns the files that kept changing meanwhile."""
        missing: list[File] = []
        for _ in range(PASSES):
            listed = self._listed()
            self._forget_parts(listed)
            files = [one for one in listed if one.name not in self.copied]
            missing = [one for one in files if not one.is_at(self._folder / one.name)]
            self.there.update(one.name for one in files if one not in missing)
            self._must_have_room(missing)
            missing = self._pass(missing)
            if not missing:
                break
        return [one.name for one in missing]

    def _listed(self) -> list[File]:
        reply = self._ask("results", which=self._which)
        return [File(*one) for one in reply["files"] if self._is_wanted(one[0])]

    def _is_wanted(self, name: str) -> bool:
        if not _is_result(name):
            return False
        agent = agent_of(name)
        return agent in self._own or (self._has_rest and agent not in self._others)

    def _pass(self, files: list[File]) -> list[File]:
        """Copies the files; returns those that have changed."""
        shown = show.console()
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
        changed = []
        with Progress(
            *columns, TransferSpeedColumn(), console=shown, disable=not shown.is_terminal
        ) as progress:
            task = progress.add_task("copying", total=sum(one.size for one in files))
            for one in files:
                progress.update(task, description=Path(one.name).name)
                if self._copy(one, lambda count: progress.advance(task, count)):
                    self.copied[one.name] = one.size
                else:
                    changed.append(one)
        return changed

    def _copy(self, file: File, advance: Any) -> bool:
        """Whether the file is here now; else it has changed there."""
        path, part = self._folder / file.name, self._part(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(part, "ab") as out:
            if out.tell() > file.size:
                out.truncate(0)
            done = out.seek(0, os.SEEK_END)
            advance(done)
            while done < file.size:
                length = min(PIECE_BYTES, file.size - done)
                reply = self._ask("piece", name=file.name, offset=done, length=length)
                data = base64.b64decode(reply["data"])
                if not data:
                    break
                out.write(data[:length])
                done += len(data[:length])
                advance(len(data[:length]))
            out.flush()
            os.fsync(out.fileno())
        takes_s = file.size / READ_A_SECOND
        expected = self._ask("digest", name=file.name, size=file.size, takes_s=takes_s)["digest"]
        if not expected or _digest(part) != expected:
            part.unlink()
            return False
        os.utime(part, ns=(file.changed_ns, file.changed_ns))
        os.replace(part, path)
        return True

    def _ask(self, do: str, **more: Any) -> dict[str, Any]:
        asked = {self.place: request(self._record, do, self.place, [], **more)}
        reply = self._hosts.ask_all(asked, self._patience_s)[self.place]
        if isinstance(reply, HostFailed):
            raise reply
        return reply

    def _part(self, file: File) -> Path:
        """What there is of a file until it is whole."""
        path = self._folder / file.name
        return path.with_name(f".{path.name}.part")

    def _forget_parts(self, listed: list[File]) -> None:
        """Removes those of files that are no longer there, such as an earlier newest checkpoint."""
        known = {self._part(one) for one in listed}
        for folder in {path.parent for path in known}:
            for path in set(folder.glob(".*.part")) - known:
                path.unlink()

    def _must_have_room(self, files: list[File]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        needed = sum(one.size - min(one.size, _size(self._part(one))) for one in files)
        free = shutil.disk_usage(self._folder).free
        if needed > free:
            raise UserError(
                f"{self._folder}: what is to come takes {_megabytes(needed)}, and its disk has "
                f"{_megabytes(free)} left. Make room, or name another --logdir with a copy of "
                "its cluster/run.json."
            )


def fetch(record: Record, hosts: Hosts, folder: str, which: str, patience_s: float) -> int:
    """Copies the results into the folder; files there of the same names are replaced."""
    places = dict.fromkeys(one.place for one in record.firsts)
    copies = [_Copy(one, record, hosts, folder, which, patience_s) for one in places]
    return max([_fetch(one, folder) for one in copies])


def _fetch(copy: _Copy, folder: str) -> int:
    host = copy.place.host
    try:
        if host.is_local or copy.is_shared():
            print(f"{copy.whose} writes here: its results are in {folder}.")
            return 0
        copy.check()
        changed = copy.run()
    except (HostFailed, OSError) as error:
        if isinstance(error, OSError):  # of a disk here
            print(f"{error.filename or folder} cannot be written ({error.strerror}).")
        else:
            print(f"{host}: {error}")
        print("Give the same command to go on where it stopped.")
        return 1
    size = _megabytes(sum(copy.copied.values()))
    before = f"; {len(copy.there)} were there already" if copy.there else ""
    print(f"Copied {len(copy.copied)} files ({size}) from {host} to {folder}{before}.")
    if changed:
        print(f"Not copied, because they change too often: {', '.join(changed)}.")
    return int(bool(changed))


def _digest(path: Path) -> str:
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while data := file.read(AT_ONCE):
            found.update(data)
    return found.hexdigest()


def _size(path: Path) -> int:
    """The size of a file; 0 if there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _is_result(name: str) -> bool:
    """Whether a name is that of a result, whatever the host has sent."""
    path = Path(name)
    is_below = not path.is_absolute() and ".." not in path.parts
    return is_below and path.parts[0] not in LEFT and not path.name.startswith(".")


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
