"""Hosts on this machine: network namespaces on a bridge, each with a real sshd and a user.

As root:  each host has an address, a port, a host key, a user and a home of its own.
"""

import contextlib
import dataclasses
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from cluster.backends.ssh.hosts import LOADER
from cluster.on_host.states import IN_USE
from tests import namespaces
from tests.cluster.conftest import copy_project
from tests.namespaces import SSHD, Bridge, Namespace, make_key, sh

PASSWORD = "hush-4711-hush"
FOLDER = "imphosts"


def missing() -> str:
    """Why hosts cannot be made here, or "" if they can."""
    return namespaces.missing(SSHD, "ssh-keygen", "useradd", "tmux", "mpirun")


@dataclasses.dataclass
class FakeHost:
    """A namespace with an address; its sshd and its user's home."""

    namespace: Namespace
    home: Path
    user: str

    @property
    def ip(self) -> str:
        return self.namespace.ip

    @property
    def port(self) -> int:
        return 2200 + self.namespace.number

    def processes(self) -> list[str]:
        """Command lines of its user, but for what answers frontends and ends after them."""
        done = subprocess.run(
            ["ps", "-ww", "-u", self.user, "-o", "args="],
            capture_output=True,
            text=True,
            check=False,
        )
        return [
            line
            for line in done.stdout.splitlines()
            if not any(word in line for word in ("sshd:", "<defunct>", LOADER[:20]))
        ]


class Network:
    """A bridge with hosts; takes everything down again."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=FOLDER))
        self.folder.chmod(0o755)
        self.hosts: list[FakeHost] = []
        self._bridge = Bridge()
        self.network, self.own_address = self._bridge.network, self._bridge.address
        # The frontend's user: a key, and nobody known yet.
        self.home = self.folder / "me"
        (self.home / ".ssh").mkdir(parents=True)
        self.key = self.home / ".ssh" / "id_test"
        make_key(self.key)

    @property
    def known_hosts(self) -> Path:
        return self.home / ".ssh" / "known_hosts"

    def add_host(self) -> FakeHost:
        """A new host whose user may log in with the key or with the password."""
        namespace = self._bridge.add()
        home = self.folder / f"home{namespace.number}"
        # A name of its own: users that a killed machine left are in nobody's way.
        user = f"imp{self.folder.name.removeprefix(FOLDER)}{namespace.number}"
        host = FakeHost(namespace, home, user)
        self._bridge.at_end(f"pkill -KILL -u {user}; sleep 0.1; userdel {user}")
        sh(f"useradd -m -d {home} -s /bin/bash {host.user}")
        subprocess.run(["chpasswd"], input=f"{host.user}:{PASSWORD}", text=True, check=True)
        (home / ".ssh").mkdir()
        shutil.copy(f"{self.key}.pub", home / ".ssh" / "authorized_keys")
        copy_project(home / "impala")
        (home / "impala" / IN_USE).touch()  # as --action=sync marks it
        sh(f"chown -R {host.user} {home} && chmod 755 {home}")
        options = ("MaxStartups 100", "PasswordAuthentication yes")
        self._bridge.start_sshd(namespace, host.port, self.folder, *options)
        self.hosts.append(host)
        return host

    def remember(self, host: FakeHost) -> None:
        """Writes a host's key to known_hosts."""
        kind, key = (self.folder / f"key-{host.namespace.name}.pub").read_text().split()[:2]
        with open(self.known_hosts, "a") as file:
            file.write(f"[{host.ip}]:{host.port} {kind} {key}\n")

    def cut(self, host: FakeHost) -> None:
        """Takes a host off the network."""
        host.namespace.unplug()

    def mend(self, host: FakeHost) -> None:
        """Puts it back."""
        host.namespace.plug()

    def freeze(self, host: FakeHost) -> None:
        """Stops everything on a host, its sshd as well; its kernel still confirms packets."""
        self._signal(host, signal.SIGSTOP)

    def thaw(self, host: FakeHost) -> None:
        """Ends ``freeze``."""
        self._signal(host, signal.SIGCONT)

    def _signal(self, host: FakeHost, number: signal.Signals) -> None:
        for pid in sh(f"ip netns pids {host.namespace.name}").split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), number)

    def row(self, job: str, host: FakeHost, port: int, password: str = "", key: bool = True) -> str:
        """A line of the CSV."""
        login = f"{host.port},{host.user},{password},{self.key if key else ''}"
        return f"{job},{host.ip},{port},{login},{sys.executable}"

    def close(self) -> None:
        """Ends the servers and what users left, and removes users, namespaces and the bridge."""
        self._bridge.close()
        shutil.rmtree(self.folder)


def counting_python(host: FakeHost) -> tuple[Path, Path]:
    """A Python that notes the first word of each of its starts, and the file where it does."""
    path, starts = host.home / "python", host.home / "starts"
    path.write_text(f'#!/bin/sh\necho "$1" >>{starts}\nexec {shlex.quote(sys.executable)} "$@"\n')
    path.chmod(0o755)
    starts.write_text("")
    sh(f"chown {host.user} {starts}")
    return path, starts


HEADER = "job,ip,tf_port,ssh_port,ssh_username,ssh_password,ssh_key,python"


def four_hosts(network: Network) -> list[str]:
    """A CSV with a learner on two hosts each and actors on two others, by key and by password."""
    first, second, third, fourth = network.hosts
    return [
        HEADER,
        network.row("learner", first, 8001),
        network.row("learner", second, 8002, password=PASSWORD, key=False),
        network.row("actor", third, 9001, password=PASSWORD, key=False),
        network.row("actor", fourth, 9002),
        network.row("actor", fourth, 9003),
    ]
