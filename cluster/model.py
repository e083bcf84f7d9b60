"""The parts of a plan: hosts, processes, and the links between learners and actors."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from cluster.inventory.columns import host_of
from cluster.inventory.hosts_csv import Row


@dataclasses.dataclass(frozen=True)
class Host:
    """Where processes run and how to log in there; ``ssh_port`` 0 means this machine.

    With another key of the same login it is the same host.
    """

    ip: str
    ssh_port: int = 0
    username: str = ""
    key: str = dataclasses.field(default="", compare=False)

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
LOOPBACK = "127.0.0.1"


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
    """A learner, an actor or a remote: its row, its name, and the learner of an actor.

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
    def ports(self) -> range:
        """Those that it has; a remote has one for its desktop and one for its rewarder."""
        return range(self.tf_port, self.tf_port + self.row.ports_of_each)

    @property
    def address(self) -> str:
        """Where the others find it, in the form that the flags expect."""
        return self.address_at(self.row.ip)

    def address_at(self, ip: str) -> str:
        """The same, for those who find its host at this address."""
        return f"{f'[{ip}]' if ':' in ip else ip}:{'+'.join(map(str, self.ports))}"


def cut_off(links: Iterable[tuple[Member, Member]]) -> Iterator[tuple[int, str]]:
    """Who is to be reached at an address, such as localhost, that leads the actor to itself."""
    for reached, actor in links:
        if host_of(reached.row.ip) == "localhost" and reached.host != actor.host:
            yield (
                reached.row.line,
                f"column ip: {reached.name} is at {reached.row.ip}, where {actor.name} on "
                f"{actor.host} (line {actor.row.line}) cannot reach it. Give an address that "
                "works on both.",
            )


class Dealt(NamedTuple):
    """A remote, and the actor that plays there."""

    remote: Member
    actor: Member

    @property
    def listens_at(self) -> str:
        """The address at which nobody but its actor's host can reach it, where that is its own."""
        return LOOPBACK if self.remote.host == self.actor.host else self.remote.row.ip

    @property
    def address(self) -> str:
        """Where its actor finds it."""
        return self.remote.address_at(self.listens_at)


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
    remotes: tuple[Dealt, ...] = ()

    @property
    def members(self) -> tuple[Member, ...]:
        """All that have a row."""
        return (*self.learners, *self.actors, *(one.remote for one in self.remotes))

    @property
    def ranks(self) -> tuple[Member, ...]:
        """The learners that an ``mpirun`` starts; others need neither that nor Horovod."""
        names = {name for process in self.processes for name in process.parts}
        return tuple(one for one in self.learners if one.name in names)
