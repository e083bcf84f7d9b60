"""Connections logged in by password for the ssh of mpirun, which cannot prompt for one.

OpenSSH itself keeps them open: a master process in the background that others join by its socket.
Stopping a run ends it like everything else that carries the run's mark.
"""

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from cluster.model import Host, Mpirun
from cluster.on_host.processes import MARK
from cluster.options import Options
from cluster.ssh.passwords import Passwords

# Any other failure may pass.
REFUSED = "Permission denied"
AGAIN_S = 2.0
# It may be asked once for each way of logging in that takes a password.
MOST_ASKED = 3
PIPE = "IMPALA_PASSWORD_PIPE"
# Not head, which would consume the lines for later prompts too; printf is a shell builtin.
ASKPASS = f'#!/bin/sh\nIFS= read -r answer <"${PIPE}" && printf "%s\\n" "$answer"\n'
# A connection in the background that others join.
MASTER = ("-f", "-N", "-o", "ControlMaster=yes", "-o", "BatchMode=no")


def open_all(spread: Mpirun, run_id: str, passwords: Passwords, options: Options) -> list[str]:
    """Logs in where a password is needed; returns the problems, a line for each host."""
    if not spread.by_password:
        return []
    problems = []
    end = time.monotonic() + options.patience
    config = spread.files[-1][0]
    folders = (tempfile.gettempdir(), os.path.dirname(config) or ".")
    with _askpass(folders) as askpass:
        if not askpass:
            wrong = (
                "ssh gets the password from a script, and nothing can be executed in "
                f"{' or '.join(folders)}. Set TMPDIR to a folder where it can, or use a key."
            )
            return [_problem(host, wrong) for _, host in spread.by_password]
        for name, host in spread.by_password:
            password = passwords.of(host) or ""
            while wrong := _open(name, config, run_id, password, askpass, options):
                if REFUSED in wrong or time.monotonic() >= end:
                    problems.append(_problem(host, wrong))
                    break
                time.sleep(AGAIN_S)
    return problems


@contextlib.contextmanager
def _askpass(folders: Sequence[str]) -> Iterator[str]:
    """The script in the first folder that allows it to be executed; "" if none does."""
    for one in folders:
        with tempfile.TemporaryDirectory(dir=one) as folder:
            script = Path(folder) / "askpass"
            script.write_text(ASKPASS)
            script.chmod(0o700)
            if os.access(script, os.X_OK):  # not on a file system that is mounted with noexec
                yield str(script)
                return
    yield ""


def _open(
    name: str, config: str, run_id: str, password: str, askpass: str, options: Options
) -> str:
    """Opens a connection in the background; returns the error of ssh, "" if there is none."""
    timeout_s = options.connect_timeout_s
    command = ["ssh", "-F", config, *MASTER, "-o", "NumberOfPasswordPrompts=1"]
    command += ["-o", f"ConnectTimeout={max(1, round(timeout_s))}"]
    command += ["-o", "PreferredAuthentications=password,keyboard-interactive", name]
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as errors:
        pipe = Path(folder) / "pipe"
        # A pipe holds the password until it is read, so it is never on a disk.
        os.mkfifo(pipe, 0o600)
        held = os.open(pipe, os.O_RDWR)
        os.write(held, f"{password}\n".encode() * MOST_ASKED)
        asking = {
            MARK: run_id,
            PIPE: str(pipe),
            "SSH_ASKPASS": askpass,
            "SSH_ASKPASS_REQUIRE": "force",
            "DISPLAY": os.environ.get("DISPLAY", ":0"),
        }
        try:
            done = subprocess.run(
                command,
                env={**os.environ, **asking},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
                timeout=3 * timeout_s,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"ssh: {type(error).__name__}"
        finally:
            os.close(held)
        errors.seek(0)
        last = errors.read().decode("utf-8", "replace").strip().splitlines()[-1:]
        return "".join(last) or "ssh failed" if done.returncode else ""


def _problem(host: Host, wrong: str) -> str:
    return f"  {host}: mpirun cannot log in there by password: {wrong}"
