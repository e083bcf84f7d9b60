"""The parts of a plan: hosts, processes, and the links between learners and actors."""

import dataclasses
from collections.abc import Callable

from cluster.inventory.hosts_csv import Row


@dataclasses.dataclass(frozen=True)
class Host:
    """Where processes run and how to log in there; ``ssh_port`` 0 means this machine."""

    ip: str
    ssh_port: int = 0
    username: str = ""
    key: str = ""

    @property
    def is_local(self) -> bool:
        """Whether it is this machine, so that no login is needed."""
        return not self.ssh_port

    def __str__(self) -> str:
        if self.is_local:
            return "localhost"
        user = f"{self.username}@" if self.username else ""
        if self.ssh_port == 22:
            return f"{user}{self.ip}"
        return f"{user}{f'[{self.ip}]' if ':' in self.ip else self.ip}:{self.ssh_port}"


LOCAL = Host("localhost")


@dataclasses.dataclass(frozen=True)
class Route:
    """How to get to a host: its address, keys to try, and the jump hosts or command before it."""

    address: str
    keys: tuple[str, ...] = ()
    jumps: tuple[Host, ...] = ()
    command: str = ""


def direct(host: Host) -> Route:
    """The way to a host of which no SSH configuration says anything."""
    return Route(host.ip)


@dataclasses.dataclass(frozen=True)
class Place:
    """A folder on a host, and the Python that runs what this project needs there."""

    host: Host
    folder: str
    python: str


@dataclasses.dataclass(frozen=True)
class Process:
    """One command in one place. ``parts`` names the learners that an ``mpirun`` starts."""

    name: str
    job: str
    place: Place
    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()
    parts: tuple[str, ...] = ()
    restarts: int = 0

    @property
    def host(self) -> Host:
        """Where it runs."""
        return self.place.host


@dataclasses.dataclass(frozen=True)
class Here:
    """What the plan needs to know about the machine that it is made on."""

    folder: str
    python: str
    script: str
    username: str
    known_hosts: str
    is_own_address: Callable[[str], bool]
    ssh_agent: str = ""
    ssh_config: str = ""
    route: Callable[[Host], Route] = direct


@dataclasses.dataclass(frozen=True)
class Member:
    """A learner or an actor: its row, its name, and the learner that it is linked to.

    Where there are several agents, an actor is linked to a learner of each.
    """

    name: str
    place: Place
    row: Row
    tf_port: int
    learner: int
    others: tuple[int, ...] = ()  # the learners of further agents

    @property
    def linked(self) -> tuple[int, ...]:
        """All learners that an actor is linked to."""
        return (self.learner, *self.others)

    @property
    def number(self) -> int:
        """That of its kind, at the end of its name."""
        return int(self.name.rpartition("-")[2])

    @property
    def host(self) -> Host:
        """Where it runs."""
        return self.place.host

    @property
    def address(self) -> str:
        """Where the others find it, in the form that the flags expect."""
        ip = f"[{self.row.ip}]" if ":" in self.row.ip else self.row.ip
        return f"{ip}:{self.tf_port}"


@dataclasses.dataclass(frozen=True)
class Mpirun:
    """What an ``mpirun`` over several hosts needs here: files, environment, open connections.

    ``by_password`` are the hosts whose connection must be open beforehand, because its ssh cannot
    prompt for a password, with the names that the SSH configuration gives them.
    """

    files: tuple[tuple[str, str], ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    by_password: tuple[tuple[str, Host], ...] = ()


@dataclasses.dataclass(frozen=True)
class Plan:
    """Everything that a start has to do."""

    learners: tuple[Member, ...]
    actors: tuple[Member, ...]
    processes: tuple[Process, ...]
    spread: Mpirun
    logdir: str
