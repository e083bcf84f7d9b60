"""Hosts on this machine: network namespaces on a bridge, each with a real sshd and a user.

As root:  each host has an address, a port, a host key, a user and a home of its own.
"""

import dataclasses
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.cluster.conftest import copy_project

SSHD = "/usr/sbin/sshd"
BRIDGE = "impbr0"
NETWORK = "10.77.9.0/24"
OWN_ADDRESS = "10.77.9.254"
PASSWORD = "hush-4711-hush"


def missing() -> str:
    """Why hosts cannot be made here, or "" if they can."""
    if os.geteuid():
        return "needs root for network namespaces and users"
    needed = [SSHD, "ip", "ssh-keygen", "useradd", "tmux", "mpirun"]
    lacking = [name for name in needed if not shutil.which(name)]
    if lacking:
        return f"needs {', '.join(lacking)}"
    probe = subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False)
    return "network namespaces are not allowed here" if probe.returncode else ""


def sh(command: str) -> str:
    """A shell command that must succeed."""
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


@dataclasses.dataclass
class FakeHost:
    """A namespace with an address; its sshd and its user's home."""

    number: int
    home: Path
    server: subprocess.Popen

    @property
    def ip(self) -> str:
        return f"10.77.9.{self.number}"

    @property
    def port(self) -> int:
        return 2200 + self.number

    @property
    def user(self) -> str:
        return f"imptest{self.number}"

    @property
    def link(self) -> str:
        return f"impv{self.number}"

    def processes(self) -> list[str]:
        """Command lines of its user."""
        done = subprocess.run(
            ["ps", "-u", self.user, "-o", "args="], capture_output=True, text=True, check=False
        )
        return [
            line
            for line in done.stdout.splitlines()
            if "sshd:" not in line and "<defunct>" not in line
        ]


class Network:
    """A bridge with hosts; takes everything down again."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="imphosts"))
        self.folder.chmod(0o755)
        self.hosts: list[FakeHost] = []
        os.makedirs("/run/sshd", exist_ok=True)
        sh(f"ip link add {BRIDGE} type bridge && ip addr add {OWN_ADDRESS}/24 dev {BRIDGE}")
        sh(f"ip link set {BRIDGE} up")
        # The frontend's user: a key, and nobody known yet.
        self.home = self.folder / "me"
        (self.home / ".ssh").mkdir(parents=True)
        self.key = self.home / ".ssh" / "id_test"
        sh(f"ssh-keygen -q -t ed25519 -N '' -f {self.key}")

    @property
    def known_hosts(self) -> Path:
        return self.home / ".ssh" / "known_hosts"

    def add_host(self, number: int) -> FakeHost:
        """A new host whose user may log in with the key or with the password."""
        home = self.folder / f"home{number}"
        host = FakeHost(number, home, None)  # type: ignore[arg-type]
        name = f"impns{number}"
        sh(f"ip netns add {name} && ip link add {host.link} type veth peer name eth0 netns {name}")
        sh(f"ip link set {host.link} master {BRIDGE} up")
        sh(
            f"ip -n {name} addr add {host.ip}/24 dev eth0 && ip -n {name} link set eth0 up "
            f"&& ip -n {name} link set lo up"
        )
        sh(f"useradd -m -d {home} -s /bin/bash {host.user}")
        subprocess.run(["chpasswd"], input=f"{host.user}:{PASSWORD}", text=True, check=True)
        (home / ".ssh").mkdir()
        shutil.copy(f"{self.key}.pub", home / ".ssh" / "authorized_keys")
        copy_project(home / "impala")
        sh(f"chown -R {host.user} {home} && chmod 755 {home}")
        host.server = self._serve(host, name)
        self.hosts.append(host)
        return host

    def _serve(self, host: FakeHost, name: str) -> subprocess.Popen:
        config, key = self.folder / f"sshd{host.number}", self.folder / f"key{host.number}"
        sh(f"ssh-keygen -q -t ed25519 -N '' -f {key}")
        config.write_text(
            f"Port {host.port}\nListenAddress {host.ip}\nHostKey {key}\nUsePAM no\n"
            f"PidFile none\nStrictModes no\nMaxStartups 100\nPasswordAuthentication yes\n"
        )
        server = subprocess.Popen(
            ["ip", "netns", "exec", name, SSHD, "-D", "-e", "-f", str(config)],
            stderr=subprocess.DEVNULL,
        )
        time.sleep(0.3)
        assert server.poll() is None
        return server

    def remember(self, host: FakeHost) -> None:
        """Writes a host's key to known_hosts."""
        kind, key = (self.folder / f"key{host.number}.pub").read_text().split()[:2]
        with open(self.known_hosts, "a") as file:
            file.write(f"[{host.ip}]:{host.port} {kind} {key}\n")

    def cut(self, host: FakeHost) -> None:
        """Takes a host off the network."""
        sh(f"ip link set {host.link} down")

    def mend(self, host: FakeHost) -> None:
        """Puts it back."""
        sh(f"ip link set {host.link} up")

    def row(self, job: str, host: FakeHost, port: int, password: str = "", key: bool = True) -> str:
        """A line of the CSV."""
        login = f"{host.port},{host.user},{password},{self.key if key else ''}"
        return f"{job},{host.ip},{port},{login},{sys.executable}"

    def close(self) -> None:
        """Ends the servers and what users left, and removes users, namespaces and the bridge."""
        for host in self.hosts:
            host.server.terminate()
            host.server.wait()
            subprocess.run(["pkill", "-KILL", "-u", host.user], check=False)
            time.sleep(0.1)
            subprocess.run(["userdel", host.user], capture_output=True, check=False)
            # First the link: a namespace outlives its name while it waits for answers of others.
            subprocess.run(["ip", "link", "del", host.link], check=False)
            subprocess.run(["ip", "netns", "del", f"impns{host.number}"], check=False)
        subprocess.run(["ip", "link", "del", BRIDGE], check=False)
        shutil.rmtree(self.folder)


HEADER = "job,ip,tf_port,ssh_port,ssh_username,ssh_password,ssh_key,python"
