"""Hosts on this machine with an SSH server each; see ``benchmarks.tools.namespaces``."""

import os
import socket
import subprocess
import time
from pathlib import Path

from benchmarks.tools import namespaces
from benchmarks.tools.namespaces import Namespace, missing, sh

__all__ = ["SSHD", "Bridge", "Namespace", "make_key", "missing", "sh"]

SSHD = "/usr/sbin/sshd"


class Bridge(namespaces.Bridge):
    """What joins the hosts; ``close`` ends their servers, too."""

    def __init__(self) -> None:
        super().__init__()
        self._servers: list[subprocess.Popen] = []

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
        super().close()


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
