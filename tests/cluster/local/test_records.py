"""Records of runs on this machine: they keep second starts out, and stops off other processes."""

import fcntl
import json
import os
import signal
import subprocess
import sys

import pytest

from cluster.on_host.processes import is_alive, send, start_time
from tests.cluster.conftest import Frontend
from tests.cluster.local.runs import ON_THIS_MACHINE, ONE_EACH, state

pytestmark = ON_THIS_MACHINE


def test_a_second_start_of_a_living_run_is_refused(frontend: Frontend):
    frontend.csv(*ONE_EACH)
    assert frontend.run("start").returncode == 0
    refused = frontend.run("start")
    assert refused.returncode == 2
    assert "logs/run: a run is already running there: learner-0, actor-0." in refused.stderr
    assert frontend.run("status").returncode == 0
    assert frontend.run("stop").returncode == 0
    assert frontend.run("start").returncode == 0


def test_two_starts_at_once_do_not_take_each_others_record(frontend: Frontend):
    frontend.csv(*ONE_EACH)
    (frontend.logdir / "cluster").mkdir(parents=True)
    with open(frontend.logdir / "cluster" / ".starting", "w") as lock:  # held by one in progress
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused = frontend.run("start")
    assert refused.returncode == 2 and "another start in logs/run is in progress" in refused.stderr
    assert frontend.run("start").returncode == 0


def test_a_run_of_another_frontend_in_the_same_folder_keeps_its_files(frontend: Frontend):
    frontend.csv(*ONE_EACH)
    assert frontend.run("start").returncode == 0
    record, before = frontend.logdir / "cluster" / "run.json", state(frontend, "actor-0")
    record.rename(frontend.folder / "its own")
    told = "actor-0 of another run is running in"
    checked = frontend.run("check", "--tmux_sess=other")
    assert checked.returncode == 1 and told in " ".join(checked.stdout.split())
    # The record may be gone for good, and so would be the way to stop it.
    assert f"(kill {before['keeper'][0]})" in checked.stdout
    frontend.csv(*ONE_EACH[:1], "learner,localhost,18002", ONE_EACH[2])
    partly = frontend.run("start", "--tmux_sess=other", "--allow_partial", "--start_timeout_s=5")
    assert partly.returncode == 1 and told in partly.stdout.rpartition("No learner started")[2]
    assert state(frontend, "actor-0") == before and is_alive(*before["child"])
    (frontend.folder / "its own").rename(record)
    assert frontend.run("stop").stdout == "Stopped 1 learner and 1 actor.\n"


def test_a_check_beside_ones_own_living_run_finds_nothing_of_it_in_the_way(frontend: Frontend):
    frontend.csv(*ONE_EACH)
    assert frontend.run("start").returncode == 0
    assert frontend.run("check").stdout == "No problems found.\n"
    assert frontend.run("stop").stdout == "Stopped 1 learner and 1 actor.\n"


def test_a_damaged_record_is_told_and_what_to_do(frontend: Frontend):
    frontend.csv(*ONE_EACH)
    assert frontend.run("start").returncode == 0
    record = frontend.logdir / "cluster" / "run.json"
    whole = record.read_text()
    for text in (whole[:100], "", "[]", "null", '{"parts": 3}'):
        record.write_text(text)
        for action in ("stop", "status", "start", "restart"):
            told = frontend.run(action)
            assert told.returncode == 2 and "Traceback" not in told.stderr
            assert "If none of it is running any more, remove the file." in told.stderr
    record.write_text(whole)
    assert frontend.run("stop").stdout == "Stopped 1 learner and 1 actor.\n"


def test_where_no_run_is_recorded_stop_says_so(frontend: Frontend):
    frontend.csv(*ONE_EACH)
    done = frontend.run("stop")
    assert done.returncode == 2 and "no run was started in logs/run" in done.stderr


def test_a_process_that_got_a_recorded_id_since_is_not_touched(frontend: Frontend):
    frontend.csv(*ONE_EACH)
    assert frontend.run("start").returncode == 0
    assert frontend.run("stop").returncode == 0
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        path = frontend.logdir / "cluster" / "actor-0.json"
        old = {**state(frontend, "actor-0"), "state": "running"}
        old["keeper"] = old["child"] = [other.pid, (start_time(other.pid) or 0) - 1]
        path.write_text(json.dumps(old))
        assert "died without a keeper" in frontend.run("status").stdout
        assert frontend.run("stop", "--stop_grace_s=0").returncode == 0
        assert other.poll() is None
        path.write_text(json.dumps({**old, "state": "running", "boot_id": "another"}))
        assert "lost: the host was rebooted" in frontend.run("status").stdout
    finally:
        other.kill()
        other.wait()


def test_processes_are_signalled_by_pythons_of_old_systems_too(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(os, "pidfd_open")
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    started = start_time(other.pid)
    assert started is not None and not send(other.pid, started - 1, signal.SIGKILL)
    assert send(other.pid, started, signal.SIGKILL) and other.wait() == -signal.SIGKILL
    assert not is_alive(other.pid, None)  # neither is one that had ended when it was looked at
