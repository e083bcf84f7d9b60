"""The record of a run, in its logdir: what was started where, all that later commands need.

It holds no secrets. Process ids are beside it, written on each host by the keepers.
"""

import contextlib
import dataclasses
import fcntl
import json
import socket
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cluster.inventory import columns
from cluster.model import Host, Place, Plan
from cluster.on_host.processes import boot_id
from cluster.on_host.results import of_agent
from cluster.on_host.states import write_whole
from user_error import UserError

# In which jobs are listed.
ORDER = ("learner", "actor", "remote", "tensorboard")
OUTLAST = ("remote", "tensorboard")  # those go on when all is learned, until the run is stopped


@dataclasses.dataclass(frozen=True)
class Part:
    """A process, as later commands need to know it."""

    name: str
    job: str
    place: Place
    parts: tuple[str, ...] = ()
    port: int = 0  # of an actor or a remote: with the host, what tells it from others in a CSV

    @property
    def host(self) -> Host:
        """Where it runs."""
        return self.place.host


@dataclasses.dataclass(frozen=True)
class Listener:
    """A learner's port, and where the learner runs, which may be far from its ``mpirun``."""

    name: str
    place: Place
    ip: str
    port: int
    agent: str = ""  # of several agents, the one that it trains

    @property
    def host(self) -> Host:
        """Where it runs."""
        return self.place.host


@dataclasses.dataclass(frozen=True)
class Record:
    """A run: its id, its processes, and where its learners listen."""

    run_id: str
    logdir: str
    tmux: str
    parts: tuple[Part, ...]
    listeners: tuple[Listener, ...]
    backend: str = "ssh"
    # Of Slurm and Kubernetes: each job's name, and the processes in it by their number.
    jobs: tuple[tuple[str, tuple[str, ...]], ...] = ()
    allocation: str = ""  # the job whose steps they are, where it was there before
    # Of Kubernetes: where its objects are, and the context of the user's configuration.
    namespace: str = ""
    context: str = ""
    # With which actors are added that fit the others.
    flags: tuple[str, ...] = ()
    # That which its "this machine" is: its name, and the id of its boot.
    machine: str = ""
    boot_id: str = ""
    # Where it was read: by --logdir, which is another way to the folder than the run's own.
    read_in: str = dataclasses.field(default="", compare=False)

    @property
    def path(self) -> Path:
        """The record's file."""
        return _path(self.read_in or self.logdir)

    @property
    def firsts(self) -> tuple[Listener, ...]:
        """The first learner of each agent, which writes what the agent learns."""
        firsts: dict[str, Listener] = {}
        for one in self.listeners:
            firsts.setdefault(one.agent, one)
        return tuple(firsts.values())

    def folder_of(self, one: Listener) -> str:
        """Where a learner with results of its own writes them, below the run's folder."""
        return str((Path() if one in self.firsts else Path(one.name)) / of_agent(one.agent))

    @property
    def is_elsewhere(self) -> bool:
        """Whether it has processes on the machine that started it, which is not this one.

        A reboot changes the boot's id, another container the name: both together, the machine.
        """
        places = [one.place for one in self.parts] + [one.place for one in self.listeners]
        if not any(place.host.is_local for place in places):
            return False
        # Earlier versions wrote neither.
        return self.machine not in ("", socket.gethostname()) and self.boot_id != boot_id()


def record_of(plan: Plan, tmux: str, flags: Sequence[str] = ()) -> Record:
    """A new run's record."""
    return Record(
        run_id=uuid.uuid4().hex,
        logdir=plan.logdir,
        tmux=tmux,
        parts=parts_of(plan),
        listeners=listeners_of(plan),
        flags=tuple(flags),
        machine=socket.gethostname(),
        boot_id=boot_id(),
    )


def parts_of(plan: Plan) -> tuple[Part, ...]:
    """The processes of a plan."""
    ports = {one.name: one.tf_port for one in plan.members if one.row.job != "learner"}
    return tuple(
        Part(one.name, one.job, one.place, one.parts, ports.get(one.name, 0))
        for one in plan.processes
    )


def listeners_of(plan: Plan) -> tuple[Listener, ...]:
    """The learners of a plan."""
    return tuple(
        Listener(one.name, one.place, one.row.ip, one.tf_port, one.row.agent)
        for one in plan.learners
    )


def write(record: Record, files: Mapping[str, str]) -> None:
    """Writes other files, then the record; ``UserError`` where the logdir cannot be written."""
    try:
        record.path.parent.mkdir(parents=True, exist_ok=True)
        for path, content in files.items():
            write_whole(Path(path), content)
        kept = dataclasses.asdict(record)
        del kept["read_in"]
        write_whole(record.path, json.dumps(kept, indent=1))
    except OSError as error:
        raise _unwritable(record.logdir, error) from None


def one_start(logdir: str) -> contextlib.AbstractContextManager[None]:
    """Prevents a second start, whose record would replace the first one's."""
    return _alone(logdir, ".starting", "start")


def one_fetch(logdir: str) -> contextlib.AbstractContextManager[None]:
    """Prevents a second copying into the same files."""
    return _alone(logdir, ".fetching", "fetch")


@contextlib.contextmanager
def _alone(logdir: str, name: str, what: str) -> Iterator[None]:
    """The kernel releases the lock when this process ends, however that happens."""
    path = _path(logdir).with_name(name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = open(path, "a")  # noqa: SIM115 (closed below)
    except OSError as error:
        raise _unwritable(logdir, error) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"another {what} in {logdir} is in progress. Wait for it, or give another --logdir."
            ) from None
        except OSError:
            pass  # a file system without locks
        yield


def _unwritable(logdir: str, error: OSError) -> UserError:
    return UserError(
        f"--logdir={logdir} cannot be written ({error.strerror}). Name another folder."
    )


def read(logdir: str) -> Record | None:
    """The record of the last run in a logdir, if there was one."""
    try:
        written = json.loads(_path(logdir).read_text())
        return Record(
            written["run_id"],
            # As the run's processes know it, below each host's folder, whatever --logdir is now.
            written["logdir"],
            written["tmux"],
            tuple(_part(part) for part in written["parts"]),
            tuple(
                Listener(**{**one, "place": _place(one["place"])}) for one in written["listeners"]
            ),
            # Earlier versions wrote none of these.
            written.get("backend", "ssh"),
            tuple((job, tuple(names)) for job, names in written.get("jobs", ())),
            written.get("allocation", ""),
            written.get("namespace", ""),
            written.get("context", ""),
            tuple(written.get("flags", ())),
            written.get("machine", ""),
            written.get("boot_id", ""),
            read_in=logdir,
        )
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(
            f"{_path(logdir)} cannot be read ({reason}), so what was started there is unknown. "
            "If none of it is running any more, remove the file."
        ) from None


def must_read(logdir: str) -> Record:
    """The record; a ``UserError`` if there is none."""
    record = read(logdir)
    if record is None:
        raise UserError(f"no run was started in {logdir}. Name the run's folder with --logdir.")
    return record


def refuse_elsewhere(record: Record) -> None:
    """A ``UserError`` if only another machine can tell what of the run is running there."""
    if record.is_elsewhere:
        raise UserError(
            f"the run in {record.path.parent.parent} was started on {record.machine}: give the "
            "command there. If that machine is gone for good, end the rest of the run with "
            f"--action=stop here, and remove {record.path}."
        )


def again(record: Record) -> Record:
    """The record as it is now: actors may have come and gone. Another run's is not looked at."""
    with contextlib.suppress(UserError):
        now = read(record.read_in or record.logdir)
        if now and now.run_id == record.run_id:
            return now
    return record


def counted(jobs: Mapping[str, int]) -> str:
    """How many of each job, in words; "" for none."""
    counts = [
        "TensorBoard" if job == "tensorboard" else f"{count} {job}{'s' if count > 1 else ''}"
        for job, count in sorted(jobs.items(), key=lambda item: ORDER.index(item[0]))
        if count
    ]
    return " and ".join([", ".join(counts[:-1]), counts[-1]] if len(counts) > 1 else counts)


def _part(written: dict[str, Any]) -> Part:
    place = _place(written["place"])
    return Part(**{**written, "place": place, "parts": tuple(written["parts"])})


def _place(written: dict[str, Any]) -> Place:
    host = Host(**written["host"])
    if host.key:  # earlier versions wrote it as the CSV has it
        host = dataclasses.replace(host, key=columns.key(host.key))
    return Place(**{**written, "host": host})


def _path(logdir: str) -> Path:
    return Path(logdir) / "cluster" / "run.json"
