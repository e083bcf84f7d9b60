"""Connections logged in by password for the ssh of mpirun, which cannot prompt for one.

OpenSSH itself keeps them open: a master process in the background that others join by its socket.
Stopping a run ends it like everything else that carries the run's mark.
"""

import os
import subprocess
import tempfile
import time
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
    problems = []
    end = time.monotonic() + options.patience
    for name, host in spread.by_password:
        config, password = spread.files[-1][0], passwords.of(host) or ""
        while wrong := _open(name, config, run_id, password, options.connect_timeout_s):
            if REFUSED in wrong or time.monotonic() >= end:
                problems.append(_problem(host, wrong))
                break
            time.sleep(AGAIN_S)
    return problems


def _open(name: str, config: str, run_id: str, password: str, timeout_s: float) -> str:
    """Opens a connection in the background; returns the error of ssh, "" if there is none."""
    command = ["ssh", "-F", config, *MASTER, "-o", "NumberOfPasswordPrompts=1"]
    command += ["-o", f"ConnectTimeout={max(1, round(timeout_s))}"]
    command += ["-o", "PreferredAuthentications=password,keyboard-interactive", name]
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as errors:
        askpass, pipe = Path(folder) / "askpass", Path(folder) / "pipe"
        askpass.write_text(ASKPASS)
        askpass.chmod(0o700)
        # A pipe holds the password until it is read, so it is never on a disk.
        os.mkfifo(pipe, 0o600)
        held = os.open(pipe, os.O_RDWR)
        os.write(held, f"{password}\n".encode() * MOST_ASKED)
        asking = {
            MARK: run_id,
            PIPE: str(pipe),
            "SSH_ASKPASS": str(askpass),
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
