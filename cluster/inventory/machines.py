"""Machines from another list, and the CSV rows made from them."""

import csv
import dataclasses
import io
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

from user_error import UserError

COLUMNS = (
    *("job", "ip", "tf_port", "cuda_visible_devices", "ssh_port", "ssh_username", "ssh_password"),
    *("ssh_key", "remote_dir", "count"),
)


@dataclasses.dataclass(frozen=True)
class Machine:
    """One machine: its name, its tags, and how to log in there."""

    name: str
    address: str  # "": it has none of the kind that is wanted
    tags: tuple[str, ...] = ()  # groups, or KEY=VALUE
    ssh_port: str = ""
    ssh_username: str = ""
    ssh_key: str = ""
    local: bool = False

    def fits(self, patterns: Sequence[str]) -> bool:
        """Whether its name or one of its tags matches one of the patterns."""
        return any(fnmatchcase(one, like) for one in (self.name, *self.tags) for like in patterns)


@dataclasses.dataclass(frozen=True)
class Wanted:
    """Which machines do what; see the flags of ``make_csv.py``."""

    learners: Sequence[str]
    actors: Sequence[str]
    address: str = "private"
    learners_per_host: int = 1
    actors_per_host: int = 1
    learner_port: int = 8001
    actor_port: int = 9001
    ssh_port: str = ""
    ssh_username: str = ""
    ssh_key: str = ""
    remote_dir: str = ""


def to_csv(machines: Sequence[Machine], wanted: Wanted) -> str:
    """The CSV; a ``UserError`` where a pattern matches no machine."""
    if not machines:
        raise UserError("there is no machine in it, or none that is running.")
    learners = _chosen(machines, wanted.learners, "--learners")
    if wanted.actors:
        actors = _chosen(machines, wanted.actors, "--actors")
    else:
        actors = [machine for machine in machines if machine not in learners]
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(row for machine in learners for row in _learners(machine, wanted))
    writer.writerows(_actors(machine, wanted) for machine in actors)
    return text.getvalue()


def _chosen(machines: Sequence[Machine], patterns: Sequence[str], flag: str) -> list[Machine]:
    for pattern in patterns:
        if not any(machine.fits([pattern]) for machine in machines):
            known = list(
                dict.fromkeys(one for machine in machines for one in (machine.name, *machine.tags))
            )
            some = ", ".join(known[:20]) + (" …" if len(known) > 20 else "")
            raise UserError(f"{flag}: {pattern!r} matches no name and no tag. There are {some}.")
    return [machine for machine in machines if machine.fits(patterns)]


def _learners(machine: Machine, wanted: Wanted) -> Iterator[dict[str, Any]]:
    several = wanted.learners_per_host > 1
    for index in range(wanted.learners_per_host):
        yield {
            "job": "learner",
            "tf_port": wanted.learner_port + index,
            "cuda_visible_devices": index if several else "",
            **_login(machine, wanted),
        }


def _actors(machine: Machine, wanted: Wanted) -> dict[str, Any]:
    many = wanted.actors_per_host
    login = _login(machine, wanted)
    return {
        "job": "actor",
        "tf_port": wanted.actor_port,
        "count": many if many > 1 else "",
        **login,
    }


def _login(machine: Machine, wanted: Wanted) -> dict[str, Any]:
    if not machine.address:
        other = "private" if wanted.address == "public" else "public"
        raise UserError(
            f"{machine.name} has no {wanted.address} address. Choose others with --learners and "
            f"--actors, or give --address={other}."
        )
    if machine.local:
        return {"ip": machine.address}
    return {
        "ip": machine.address,
        # Any of these makes the frontend treat the machine as another one.
        "ssh_port": machine.ssh_port or wanted.ssh_port or "22",
        "ssh_username": machine.ssh_username or wanted.ssh_username,
        "ssh_key": machine.ssh_key or wanted.ssh_key,
        "remote_dir": wanted.remote_dir,
    }
