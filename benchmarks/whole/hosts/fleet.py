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
# Each would have a machine of its own, and not wait behind other programs for its turn; what plays
# there must not keep the others from theirs.
PRIORITY, PLAYS = "-10", "10"
# A Python for the keepers, and for experiment.py the same, or something that waits.
PYTHON = """#!/bin/sh
if [ "$1" = experiment.py ]; then {instead}; fi
exec {python} "$@"
"""
# Its own /proc and its own logs, so that a stop ends nothing of the other hosts; and a home without
# the start-up files of this machine's user, which may wait for one another.
INSIDE = (
    "mount -t proc proc /proc && mount --bind {logs} {project}/logs "
    "&& mount --bind {passwd} /etc/passwd && exec {sshd}"
)
USER = "root:x:0:0::{home}:/bin/sh\n"


def missing() -> str:
    """Why hosts cannot be made here, or "" if they can."""
    return namespaces.missing(SSHD, "ssh-keygen", "unshare", "mount")


class Fleet:
    """Hosts with one key, one user and one copy of the project, which none of them changes."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._project = folder / "project"
        self._python, self._playing = folder / "idle-python", folder / "playing-python"
        self._key, self._passwd = folder / "key", folder / "passwd"
        self.bridge = Bridge()
        self._servers: list[subprocess.Popen] = []
        with tarfile.open(fileobj=io.BytesIO(pack(PROJECT))) as archive:
            archive.extractall(self._project)  # our own
        (self._project / "logs").mkdir()
        python, waits = shlex.quote(sys.executable), shlex.quote(idle.__file__)
        for path, instead in (
            (self._python, f'shift; set -- {waits} "$@"'),
            (self._playing, f'exec nice -n {PLAYS} {python} "$@"'),
        ):
            path.write_text(PYTHON.format(python=python, instead=instead))
            path.chmod(0o755)
        home = folder / "home"
        home.mkdir()
        others = Path("/etc/passwd").read_text().splitlines(keepends=True)
        self._passwd.write_text(
            USER.format(home=home) + "".join(one for one in others if not one.startswith("root:"))
        )
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
            python = self._playing if number < real else self._python
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
            logs=logs,
            project=self._project,
            passwd=self._passwd,
            sshd=f"{SSHD} -D -e -f {shlex.quote(str(config))}",
        )
        unshare = [
            "nice",
            "-n",
            PRIORITY,
            "unshare",
            "--pid",
            "--fork",
            "--mount",
            "--kill-child",
            "sh",
            "-c",
            inside,
        ]
        # It ends with the benchmark, however that ends.
        command = ["setpriv", "--pdeathsig", "KILL", *host.inside(*unshare)]
        self._servers.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        end = time.monotonic() + STARTS_WITHIN_S
        while True:
            if self._servers[-1].poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{host.name}: its sshd does not start")
            try:
                socket.create_connection((host.ip, PORT), 1).close()
                return
            except OSError:
                time.sleep(0.05)
