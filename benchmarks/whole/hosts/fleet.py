"""Many hosts on this machine: a namespace with processes, an sshd and a folder of logs for each."""

import io
import os
import shlex
import socket
import subprocess
import sys
import tarfile
import time
from pathlib import Path

from benchmarks.tools import namespaces
from benchmarks.tools.namespaces import Bridge, Namespace, sh
from benchmarks.whole.hosts import idle
from cluster.backends.ssh.syncing import pack
from trainer.machine.launching import PROJECT

SSHD, PORT = "/usr/sbin/sshd", 2200
STARTS_WITHIN_S = 60.0
HEADER = "job,ip,tf_port,ssh_port,ssh_username,ssh_key,remote_dir,python"
# A Python for the keepers, and for experiment.py something that waits.
PYTHON = """#!/bin/sh
if [ "$1" = experiment.py ]; then shift; set -- {idle} "$@"; fi
exec {python} "$@"
"""
# Its own /proc and its own logs, so that a stop ends nothing of the other hosts.
INSIDE = "mount -t proc proc /proc && mount --bind {logs} {project}/logs && exec {sshd}"


def missing() -> str:
    """Why hosts cannot be made here, or "" if they can."""
    return namespaces.missing(SSHD, "ssh-keygen", "unshare", "mount")


class Fleet:
    """Hosts with one key, one user and one copy of the project, which none of them changes."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._project = folder / "project"
        self._python = folder / "idle-python"
        self._key = folder / "key"
        self.bridge = Bridge()
        self._servers: list[subprocess.Popen] = []
        with tarfile.open(fileobj=io.BytesIO(pack(PROJECT))) as archive:
            archive.extractall(self._project)  # our own
        (self._project / "logs").mkdir()
        script = PYTHON.format(python=shlex.quote(sys.executable), idle=shlex.quote(idle.__file__))
        self._python.write_text(script)
        self._python.chmod(0o755)
        sh(f"ssh-keygen -q -t ed25519 -N '' -f {self._key}")
        (folder / "me" / ".ssh").mkdir(parents=True)
        kind, public = Path(f"{self._key}.pub").read_text().split()[:2]
        known = f"[{self.bridge.subnet}.*]:{PORT} {kind} {public}\n"
        (folder / "me" / ".ssh" / "known_hosts").write_text(known)

    def __enter__(self) -> "Fleet":
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            server.kill()  # with it, everything in its namespace ends; it takes no TERM
        for server in self._servers:
            server.wait()
        self.bridge.close()

    def grow(self, count: int) -> None:
        """Adds hosts until there are so many."""
        while len(self.bridge.hosts) < count:
            self._start_sshd(self.bridge.add())

    def write_csv(self, count: int, real: int) -> None:
        """A learner on the first host, an actor on each; so many of them play."""
        lines = [HEADER]
        for number, host in enumerate(self.bridge.hosts[:count]):
            python = sys.executable if number < real else str(self._python)
            jobs = [("learner", 8001)] if not number else []
            lines += [
                f"{job},{host.ip},{port},{PORT},root,{self._key},{self._project},{python}"
                for job, port in (*jobs, ("actor", 9001))
            ]
        (self.folder / "me" / "hosts.csv").write_text("\n".join(lines) + "\n")

    def _start_sshd(self, host: Namespace) -> None:
        config, logs = self.folder / f"sshd-{host.number}", self.folder / f"logs-{host.number}"
        logs.mkdir()
        config.write_text(
            f"Port {PORT}\nListenAddress {host.ip}\nHostKey {self._key}\nPidFile none\nUsePAM no\n"
            f"StrictModes no\nPermitRootLogin yes\nAuthorizedKeysFile {self._key}.pub\n"
            "MaxStartups 100\n"
        )
        os.makedirs("/run/sshd", exist_ok=True)
        inside = INSIDE.format(
            logs=logs, project=self._project, sshd=f"{SSHD} -D -e -f {shlex.quote(str(config))}"
        )
        unshare = ["unshare", "--pid", "--fork", "--mount", "--kill-child", "sh", "-c", inside]
        self._servers.append(subprocess.Popen(host.inside(*unshare), stderr=subprocess.DEVNULL))
        end = time.monotonic() + STARTS_WITHIN_S
        while True:
            if self._servers[-1].poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{host.name}: its sshd does not start")
            try:
                socket.create_connection((host.ip, PORT), 1).close()
                return
            except OSError:
                time.sleep(0.05)
