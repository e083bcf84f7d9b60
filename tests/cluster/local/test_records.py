"""Records of runs on this machine: they keep second starts out, and stops off other processes."""

import ctypes
import dataclasses
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cluster import frontend as frontends
from cluster import record as records
from cluster.model import LOCAL, Place
from cluster.on_host.processes import boot_id, descendants, is_alive, send, start_time, topmost
from cluster.record import Listener, Part, Record
from tests.cluster.conftest import Frontend
from tests.cluster.local.runs import ON_THIS_MACHINE, ONE_EACH, state
from user_error import UserError

pytestmark = ON_THIS_MACHINE
PR_SET_NAME, PR_GET_NAME = 15, 16  # of Linux's prctl


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


def test_a_file_where_a_folder_is_expected_has_no_run(tmp_path: Path):
    (tmp_path / "run").write_text("")
    with pytest.raises(UserError, match=f"no run was started in {tmp_path}/run. Name the run's"):
        records.must_read(str(tmp_path / "run"))


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


def test_processes_of_any_name_are_told_apart():
    libc, own, half_letters = ctypes.CDLL(None), ctypes.create_string_buffer(16), b"\xd0" * 15
    libc.prctl(PR_GET_NAME, own)
    libc.prctl(PR_SET_NAME, half_letters)
    try:
        assert Path("/proc/self/stat").read_bytes().count(half_letters) == 1
        assert topmost({os.getpid(), os.getppid()}) == {os.getppid()}
        assert os.getpid() in descendants(os.getppid())
        assert is_alive(os.getpid(), start_time(os.getpid()))
    finally:
        libc.prctl(PR_SET_NAME, own)


def test_a_run_of_another_machine_that_sees_the_folder_is_neither_judged_nor_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hosts.csv").write_text("\n".join(ONE_EACH))
    part = Part("actor-0", "actor", Place(LOCAL, str(tmp_path), sys.executable), port=19001)
    listener = Listener("learner-0", part.place, "localhost", 18001)
    run = Record("id", "logs/run", "", (part,), (listener,), machine="login1", boot_id="its")
    kept = {"run_id": "id", "state": "running", "boot_id": "its", "keeper": [1, 1], "child": [2, 2]}
    folder = tmp_path / "logs/run/cluster"

    def said(action: str) -> tuple[int, str]:
        code = frontends.run(
            [f"--action={action}", "--logdir=logs/run", "--workers_csv_path=hosts.csv"]
        )
        return code, capsys.readouterr().out

    records.write(run, {"logs/run/cluster/actor-0.json": json.dumps(kept)})
    (folder / "actor-0.log").write_text("plays\n")
    before = {path.name: path.read_text() for path in folder.iterdir()}
    there = "this was started on login1: give the command there"
    code, shown = said("status")
    assert code == 1 and f"unknown: {there}" in " ".join(shown.split())
    assert said("stop") == (
        1, f"Not stopped:\n  localhost: {there}.\nGive the same command to try again.\n",
    )  # fmt: skip
    assert said("logs") == (0, "actor-0      plays\n")
    for action in ("start", "restart", "add"):
        words = r"logs/run was started on login1: .*remove logs/run/cluster/run\.json\."
        with pytest.raises(UserError, match=words):
            said(action)
    assert {name: (folder / name).read_text() for name in before} == before
    # A machine that was rebooted has its name still; another container has the same boot.
    assert not dataclasses.replace(run, machine=socket.gethostname()).is_elsewhere
    assert not dataclasses.replace(run, boot_id=boot_id()).is_elsewhere
    assert not dataclasses.replace(run, parts=(), listeners=()).is_elsewhere


def test_processes_are_signalled_by_pythons_of_old_systems_too(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(os, "pidfd_open")
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    started = start_time(other.pid)
    assert started is not None and not send(other.pid, started - 1, signal.SIGKILL)
    assert send(other.pid, started, signal.SIGKILL) and other.wait() == -signal.SIGKILL
    assert not is_alive(other.pid, None)  # neither is one that had ended when it was looked at
