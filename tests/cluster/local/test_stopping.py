"""Stops of runs on this machine, whatever is in their way."""

import contextlib
import subprocess
from pathlib import Path

import pytest

from tests.cluster.conftest import Frontend, wait_for
from tests.cluster.local.runs import EXAMPLE, ON_THIS_MACHINE, ONE_EACH, state

pytestmark = ON_THIS_MACHINE


def test_what_ignores_being_asked_is_killed_after_the_grace_period(frontend: Frontend):
    frontend.csv(*EXAMPLE)
    assert frontend.run("start", "--level_name=Stubborn").returncode == 0
    done = frontend.run("stop", "--stop_grace_s=1")
    assert done.returncode == 0 and "had to be killed" in done.stdout
    assert frontend.processes() == []


def test_who_needs_longer_to_end_gets_what_the_stop_grants(frontend: Frontend):
    frontend.csv(*ONE_EACH)
    assert frontend.run("start", "--level_name=Slow", "--stop_grace_s=1").returncode == 0
    stopped = frontend.run("stop", "--stop_grace_s=120")
    assert stopped.stdout == "Stopped 1 learner and 1 actor.\n"
    assert frontend.run("logs").stdout.count("all is saved") == 2


def test_a_full_disk_is_told_and_does_not_hold_up_a_stop(frontend: Frontend, tmp_path: Path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", disk], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no disk of its own: {mounted.stderr.decode()}")
    frontend.flags = [f"--logdir={disk}/run"]
    frontend.csv(*ONE_EACH)
    try:
        assert f"MiB are free in {disk}" in frontend.run("check").stdout
        assert frontend.run("start", "--allow_partial").returncode == 0
        with contextlib.suppress(OSError), open(disk / "other", "wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        stopped = frontend.run("stop")
        assert stopped.returncode == 0 and "Not stopped" not in stopped.stdout
        assert frontend.processes() == []
    finally:
        frontend.run("stop", "--stop_grace_s=0")
        subprocess.run(["umount", disk], check=True)


def test_stop_works_after_the_frontend_was_killed(frontend: Frontend):
    frontend.csv(*ONE_EACH)
    running = subprocess.Popen(
        frontend.command("start", "--start_timeout_s=60"),
        cwd=frontend.folder,
        env=frontend.env,
        stdout=subprocess.DEVNULL,
    )
    wait_for(lambda: state(frontend, "actor-0")["state"] == "running")
    running.kill()
    running.wait()
    assert frontend.run("stop").returncode == 0
    assert frontend.processes() == []
