"""Hosts on this machine: network namespaces on a bridge, each with an address of its own.

They take root. Each bridge has a number that no other has: others may have some at the same time,
and what a killed machine left is in nobody's way.
"""

import dataclasses
import os
import shutil
import subprocess

PREFIX = "imp"


def missing(*programs: str) -> str:
    """Why hosts cannot be made here, or "" if they can; ``programs`` are needed as well."""
    if os.geteuid():
        return "needs root for network namespaces"
    lacking = [name for name in ("ip", *programs) if not shutil.which(name)]
    if lacking:
        return f"needs {', '.join(lacking)}"
    # All of it in a namespace that goes with the shell.
    tried = "ip link add one type veth peer name two && ip link add three type bridge"
    if "tc" in programs:
        tried += f" && tc qdisc add dev one {_bucket(1)}"
    probe = subprocess.run(["unshare", "-n", "sh", "-c", tried], capture_output=True, check=False)
    needs = "needs network namespaces with links and bridges, which are not allowed here"
    return needs if probe.returncode else ""


def sh(command: str) -> str:
    """A shell command that must succeed."""
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stderr}")
    return done.stdout


@dataclasses.dataclass(frozen=True)
class Namespace:
    """A host: its link to the bridge can be unplugged, or made slow."""

    number: int
    name: str
    ip: str
    link: str

    def inside(self, *command: str) -> list[str]:
        """The command, run in there."""
        return ["ip", "netns", "exec", self.name, *command]

    def unplug(self) -> None:
        """Packets to it and from it are lost, without an error on either side."""
        sh(f"ip link set {self.link} down")

    def plug(self) -> None:
        """Ends ``unplug``."""
        sh(f"ip link set {self.link} up")

    def limit(self, megabits: int) -> None:
        """Lets no more than so many megabits a second through, in each direction."""
        sh(f"tc qdisc add dev {self.link} {_bucket(megabits)}")
        sh(f"tc -n {self.name} qdisc add dev eth0 {_bucket(megabits)}")


def _bucket(megabits: int) -> str:
    return f"root tbf rate {megabits}mbit burst 256kb latency 50ms"


class Bridge:
    """What joins the hosts, and this machine to them; ``close`` takes everything down."""

    def __init__(self) -> None:
        self._undo = _Undo()
        number = _make_bridge()
        self.prefix, self.subnet = f"{PREFIX}{number}", f"10.77.{number}"
        self._name = _bridge_name(number)
        self._undo.add(f"ip link del {self._name}")
        self.address = f"{self.subnet}.254"
        self.network = f"{self.subnet}.0/24"
        self.hosts: list[Namespace] = []
        sh(f"ip addr add {self.address}/24 dev {self._name} && ip link set {self._name} up")

    def __enter__(self) -> "Bridge":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self) -> Namespace:
        """A new host."""
        number = len(self.hosts) + 1
        name, ip = f"{self.prefix}ns{number}", f"{self.subnet}.{number}"
        host = Namespace(number, name, ip, f"{self.prefix}v{number}")
        sh(f"ip netns add {name}")
        # A namespace goes only some time later, and its link with it.
        self._undo.add(f"ip link del {host.link}; ip netns del {name}")
        self.hosts.append(host)
        sh(f"ip link add {host.link} type veth peer name eth0 netns {name}")
        sh(f"ip link set {host.link} master {self._name} up")
        sh(f"ip -n {name} addr add {ip}/24 dev eth0 && ip -n {name} link set eth0 up")
        sh(f"ip -n {name} link set lo up")
        return host

    def at_end(self, command: str) -> None:
        """Will run the command when the bridge is removed, or this process is killed."""
        self._undo.add(command)

    def close(self) -> None:
        """Removes the hosts and the bridge."""
        self._undo.close()


class _Undo:
    """A shell that removes what was made as soon as this process closes it, or is killed."""

    def __init__(self) -> None:
        self._shell = subprocess.Popen(
            # The last first, so that the bridge's number is free once all else is gone.
            ["sh", "-c", 'undo=$(tac); eval "$undo"'],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # what was not made yet
            start_new_session=True,  # Ctrl-C is for this process alone
        )

    def add(self, command: str) -> None:
        """Will run the command at the end, before those that were added earlier."""
        assert self._shell.stdin
        self._shell.stdin.write(f"{command}\n".encode())
        self._shell.stdin.flush()

    def close(self) -> None:
        """Runs all commands."""
        self._shell.communicate()


def _bridge_name(number: int) -> str:
    return f"{PREFIX}{number}br"


def _make_bridge() -> int:
    """Makes a bridge of the first number that no other has."""
    for number in range(1, 255):
        made = subprocess.run(
            ["ip", "link", "add", _bridge_name(number), "type", "bridge"],
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode == 0:
            return number
        if "File exists" not in made.stderr:
            raise RuntimeError(made.stderr)
    raise RuntimeError("all numbers of bridges are taken: ip link shows them")
