"""Stops of runs on this machine, whatever is in their way."""

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.conftest import ROOT, Frontend, wait_for
from tests.cluster.local.runs import EXAMPLE, ON_THIS_MACHINE, ONE_EACH, state

pytestmark = ON_THIS_MACHINE


def test_what_ignores_being_asked_is_killed_after_the_grace_period(frontend: Frontend):
    frontend.csv(*EXAMPLE)
    assert frontend.run("start", "--level_name=Stubborn").returncode == 0
    done = frontend.run("stop", "--stop_grace_s=1")
    assert done.returncode == 0 and "had to be killed" in done.stdout
    assert frontend.processes() == []


def test_rows_of_one_folder_with_several_pythons_are_all_stopped(
    frontend: Frontend, tmp_path: Path
):
    other = tmp_path / "python"
    other.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    other.chmod(0o755)
    header, learner, actor = ONE_EACH
    frontend.csv(f"{header},python", f"{learner},", f"{actor},{other}")
    assert frontend.run("start").returncode == 0
    assert frontend.run("stop").stdout == "Stopped 1 learner and 1 actor.\n"
    assert [state(frontend, name)["state"] for name in ("learner-0", "actor-0")] == ["stopped"] * 2


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


SAVES = """
import time
from trainer.programs.stopping import StopSignal
with StopSignal() as stop:
    print("up", flush=True)
    while not stop.is_set():
        time.sleep(0.05)
    time.sleep(1)
    print("saved", flush=True)
"""


def test_the_end_of_a_session_which_signals_every_process_twice_leaves_time_to_save(tmp_path: Path):
    log, at = tmp_path / "a.log", tmp_path / "a.json"
    spec = {
        "name": "a", "argv": [sys.executable, "-c", SAVES], "env": [("PYTHONPATH", str(ROOT))],
        "under_mpirun": False, "restarts": 0, "grace_s": 30, "run_id": "run",
        "folder": str(tmp_path), "state": str(at), "log": str(log),
    }  # fmt: skip
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    keeper = subprocess.Popen(
        [sys.executable, "-m", "cluster.on_host.keeper", str(tmp_path / "spec.json")],
        cwd=ROOT, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    wait_for(lambda: "up" in log.read_text())
    child = wait_for(lambda: json.loads(at.read_text())["child"][0])
    for pid in (child, keeper.pid):
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGHUP)
    keeper.wait(30)
    assert log.read_text() == "up\nsaved\n"
