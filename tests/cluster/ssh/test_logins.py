"""Logins by password for mpirun's ssh, on a machine that executes nothing in its /tmp."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.conftest import ROOT

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0
    or subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0,
    reason="needs root and a mount namespace",
)
# Asks for the password as ssh does.
SSH = '#!/bin/sh\n"$SSH_ASKPASS" prompt >"$0.told"\n'
PROGRAM = """
import sys
from cluster.model import Host, Mpirun
from cluster.options import Options
from cluster.ssh import logins
from cluster.ssh.passwords import Passwords

host = Host("192.0.2.1", 22, "ann")
spread = Mpirun(((f"{sys.argv[1]}/config", ""),), (), (("name", host),))
passwords = Passwords({host: "secret"}, Options())
print(*logins.open_all(spread, "r", passwords, Options(patience_s=0)))
"""


def log_in(tmp_path: Path, run: str) -> str:
    """The problems of a login for a run in `run`; nothing in `tmp_path / "tmp"` can be executed."""
    (tmp_path / "ssh").write_text(SSH)
    (tmp_path / "ssh").chmod(0o755)
    (tmp_path / "tmp").mkdir()
    inside = 'mount -t tmpfs -o noexec none "$0" && mkdir -p "$3" && exec "$1" -c "$2" "$3"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", inside, tmp_path / "tmp", sys.executable, PROGRAM, run],
        cwd=ROOT,
        env={
            **os.environ,
            "TMPDIR": str(tmp_path / "tmp"),
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_ssh_gets_the_password_by_a_script_in_the_runs_folder(tmp_path: Path):
    assert log_in(tmp_path, f"{tmp_path}/run") == ""
    assert (tmp_path / "ssh.told").read_text() == "secret\n"
    assert list((tmp_path / "run").iterdir()) == []


def test_where_no_script_can_be_executed_the_password_is_not_blamed(tmp_path: Path):
    told = log_in(tmp_path, f"{tmp_path}/tmp/run")
    assert "\n" not in told and "secret" not in told and "ermission denied" not in told
    assert f"nothing can be executed in {tmp_path}/tmp or {tmp_path}/tmp/run" in told
    assert not (tmp_path / "ssh.told").exists()
