"""Hosts on this machine: network namespaces on a bridge, each with an address of its own.

They take root. Each bridge has a number that no other has: tests may run at the same time,
and what a killed run left is in nobody's way.
"""

import dataclasses
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

SSHD = "/usr/sbin/sshd"
PREFIX = "imp"


def missing(*programs: str) -> str:
    """Why hosts cannot be made here, or "" if they can; ``programs`` are needed as well."""
    if os.geteuid():
        return "needs root for network namespaces"
    lacking = [name for name in ("ip", *programs) if not shutil.which(name)]
    if lacking:
        return f"needs {', '.join(lacking)}"
    probe = subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False)
    return "network namespaces are not allowed here" if probe.returncode else ""


def sh(command: str) -> str:
    """A shell command that must succeed."""
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


@dataclasses.dataclass(frozen=True)
class Namespace:
    """A host: its link to the bridge can be unplugged."""

    number: int
    name: str
    ip: str
    link: str

    def inside(self, *command: str) -> list[str]:
        """The command, run in there."""
        return ["ip", "netns", "exec", self.name, *command]

    def unplug(self) -> None:
        """Whatever is sent to it or by it is lost; nobody is told."""
        sh(f"ip link set {self.link} down")

    def plug(self) -> None:
        """Ends ``unplug``."""
        sh(f"ip link set {self.link} up")


class Bridge:
    """What joins the hosts, and this machine to them; ``close`` takes everything down."""

    def __init__(self) -> None:
        number = _make_bridge()
        self.prefix, self.subnet = f"{PREFIX}{number}", f"10.77.{number}"
        self._name = _bridge_name(number)
        self.address = f"{self.subnet}.254"
        self.network = f"{self.subnet}.0/24"
        self.hosts: list[Namespace] = []
        self._servers: list[subprocess.Popen] = []
        sh(f"ip addr add {self.address}/24 dev {self._name} && ip link set {self._name} up")

    def add(self) -> Namespace:
        """A new host."""
        number = len(self.hosts) + 1
        name, ip = f"{self.prefix}ns{number}", f"{self.subnet}.{number}"
        host = Namespace(number, name, ip, f"{self.prefix}v{number}")
        sh(f"ip netns add {name}")
        self.hosts.append(host)
        sh(f"ip link add {host.link} type veth peer name eth0 netns {name}")
        sh(f"ip link set {host.link} master {self._name} up")
        sh(f"ip -n {name} addr add {ip}/24 dev eth0 && ip -n {name} link set eth0 up")
        sh(f"ip -n {name} link set lo up")
        return host

    def start_sshd(self, host: Namespace, port: int, folder: Path, *options: str) -> None:
        """An SSH server in a host; its configuration and its key lie in ``folder``."""
        key, config = folder / f"key-{host.name}", folder / f"sshd-{host.name}"
        make_key(key)
        lines = [f"Port {port}", f"ListenAddress {host.ip}", f"HostKey {key}", "PidFile none"]
        config.write_text("\n".join([*lines, "UsePAM no", "StrictModes no", *options]) + "\n")
        os.makedirs("/run/sshd", exist_ok=True)
        command = host.inside(SSHD, "-D", "-e", "-f", str(config))
        self._servers.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        _wait_for(host.ip, port, self._servers[-1])

    def close(self) -> None:
        """Ends the servers; removes the hosts and the bridge."""
        for server in self._servers:
            server.terminate()
            server.wait()
        for host in self.hosts:
            # A namespace goes only some time later, and its link with it.
            subprocess.run(["ip", "link", "del", host.link], check=False)
            subprocess.run(["ip", "netns", "del", host.name], check=False)
        subprocess.run(["ip", "link", "del", self._name], check=False)


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
        assert "File exists" in made.stderr, made.stderr
    raise AssertionError("all numbers of bridges are taken: ip link shows them")


def make_key(path: Path) -> None:
    """A key pair without a password."""
    sh(f"ssh-keygen -q -t ed25519 -N '' -f {path}")


def _wait_for(ip: str, port: int, server: subprocess.Popen) -> None:
    until = time.monotonic() + 20
    while True:
        assert server.poll() is None and time.monotonic() < until
        try:
            socket.create_connection((ip, port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
