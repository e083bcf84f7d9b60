"""Runs on this machine: real tmux, real mpirun, a quick stand-in for experiment.py."""

import contextlib
import dataclasses
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.on_host.processes import is_alive, send, start_time
from tests.cluster.conftest import ROOT, Frontend, copy_project, wait_for

pytestmark = [
    pytest.mark.skipif(
        not shutil.which("tmux") or not shutil.which("mpirun"), reason="needs tmux and mpirun"
    ),
    pytest.mark.xdist_group("local runs"),
]

HEADER = "job,ip,tf_port"
ONE_EACH = (HEADER, "learner,localhost,18001", "actor,localhost,19001")
EXAMPLE = (
    HEADER, "learner,localhost,18001", "learner,localhost,18002", "actor,localhost,19001",
    "actor,localhost,19002", "actor,localhost,19003",
)  # fmt: skip


def state(frontend: Frontend, name: str) -> dict:
    return json.loads((frontend.logdir / "cluster" / f"{name}.json").read_text())


def test_the_example_starts_is_seen_and_stops_without_a_trace(frontend: Frontend):
    frontend.csv(*EXAMPLE)
    started = frontend.run("start")
    assert started.returncode == 0, started.stdout + started.stderr
    assert "Started 2 learners and 3 actors." in started.stdout
    windows = frontend.tmux("list-windows", "-t", "impala", "-F", "#W").split()
    assert windows == ["learners", "actor-0", "actor-1", "actor-2"]

    wait_for(lambda: "actor 2 reached localhost:18001" in frontend.run("logs").stdout)
    told = frontend.run("status")
    assert told.returncode == 0
    for name in ("learner-0", "learner-1", "actor-0", "actor-1", "actor-2"):
        (line,) = [line for line in told.stdout.splitlines() if f" {name} " in line]
        assert "running" in line
    assert "learner at localhost:18002 is rank 1 of 2" in told.stdout
    assert "12,345 frames" in told.stdout
    only = frontend.run("logs", "--name=learner-1").stdout.splitlines()
    assert only and all(line.startswith("learner-1 ") for line in only)

    stopped = frontend.run("stop")
    assert stopped.returncode == 0 and "Stopped 2 learners and 3 actors." in stopped.stdout
    assert frontend.processes() == [] and frontend.tmux("list-sessions") == ""
    again = frontend.run("stop")
    assert (
        again.returncode == 0 and "Nothing to stop: no process of the run is left." in again.stdout
    )


def test_a_secure_run_has_credentials_of_its_own_that_stay_when_it_starts_again(
    frontend: Frontend,
):
    frontend.csv(*ONE_EACH)
    made = []
    for _ in range(2):
        assert frontend.run("start", "--transport=secure").returncode == 0
        files = sorted((frontend.logdir / "credentials").iterdir())
        assert [path.name for path in files] == ["actor.pem", "learner.pem"]
        assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
        made.append([path.read_text() for path in files])
        assert frontend.run("stop").returncode == 0
    assert made[0] == made[1]
    files[0].chmod(0o644)
    refused = frontend.run("start", "--transport=secure")
    assert refused.returncode == 2 and "others may read or change it" in refused.stderr
    assert frontend.processes() == []


def test_what_a_dry_run_prints_can_be_pasted_into_shells(frontend: Frontend, tmp_path: Path):
    frontend.csv(f"{HEADER},env", f"{ONE_EACH[1]},A=b c;D=$(id)", f"{ONE_EACH[2]},")
    shown = frontend.run("start", "--dry_run")
    assert shown.returncode == 0 and frontend.processes() == []
    commands = shown.stdout.split("\n# ")[1:]
    assert [text.split(" on ")[0] for text in commands] == ["learner-0", "actor-0"]
    said = tmp_path / "said"
    pasted = [
        subprocess.Popen(
            ["sh", "-c", "exec 2>&1; " + text.partition("\n")[2]],
            cwd="/",
            env=frontend.env,
            stdout=said.open("a"),
            start_new_session=True,
        )
        for text in commands
    ]
    try:
        wait_for(lambda: "actor 0 reached localhost:18001 2 times" in said.read_text())
        (learner,) = [pid for pid in Path("/proc").glob("[0-9]*") if is_learner(pid, frontend)]
        environment = (learner / "environ").read_bytes().split(b"\0")
        assert b"A=b c" in environment and b"D=$(id)" in environment
    finally:
        for shell in pasted:
            os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()


def is_learner(process: Path, frontend: Frontend) -> bool:
    try:
        words = (process / "cmdline").read_text().split("\0")
    except OSError:
        return False
    own = str(frontend.folder / "experiment.py")
    return own in words and "--job_name=learner" in words and "-c" not in words


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


def test_whoever_has_no_name_and_no_letters_is_told_what_others_are(frontend: Frontend):
    frontend.csv(*ONE_EACH)
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        frontend.env.pop(name, None)
    frontend.env["PYTHONIOENCODING"] = "ascii"
    assert frontend.run("start").returncode == 0
    with open(frontend.logdir / "cluster" / "actor-0.log", "a") as log:
        log.write("naïve\n")
    assert "na\\xefve" in frontend.run("logs").stdout
    told = frontend.run("status")
    assert told.returncode == 0 and "12,345 frames" in told.stdout


def test_a_restart_ends_the_run_before_and_starts_it_again(frontend: Frontend):
    frontend.csv(*ONE_EACH)
    assert frontend.run("restart").returncode == 2
    assert frontend.run("start").returncode == 0
    before = state(frontend, "learner-0")["keeper"]
    assert frontend.run("restart").returncode == 0
    assert not is_alive(*before)
    assert frontend.run("status").returncode == 0


def test_a_level_that_there_is_not_is_told_before_anything_starts(tmp_path):
    csv = ROOT / "sandbox" / "local_workers_example.csv"
    flags = [f"--workers_csv_path={csv}", f"--logdir={tmp_path / 'run'}", "--level_name=CartPol-v1"]
    command = [sys.executable, str(ROOT / "run_experiment_mm_raw.py"), *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2 and done.stdout == "" and list(tmp_path.iterdir()) == []
    assert done.stderr.count("\n") == 1 and "Did you mean CartPole-v1" in done.stderr


def unhurried(frontend: Frontend) -> None:
    """Gives what fails at once the time to do so on a busy machine, before a start is complete."""
    path = frontend.folder / "cluster" / "backends" / "ssh" / "starting.py"
    text, constant = path.read_text(), "SETTLE_S = 2.0"
    assert constant in text
    path.write_text(text.replace(constant, "SETTLE_S = 8.0"))


def test_a_cluster_that_does_not_start_whole_is_taken_down(frontend: Frontend):
    unhurried(frontend)
    frontend.csv(*ONE_EACH)
    done = frontend.run("start", "--level_name=Fails")
    assert done.returncode == 1
    assert "actor-0 on localhost: failed: 3" in done.stdout
    assert "| actor 0 has nothing to play" in done.stdout
    assert done.stdout.index("nothing to play") < done.stdout.index("Stopped ")  # why comes first
    assert frontend.processes() == [] and frontend.tmux("list-sessions") == ""


def test_or_goes_on_in_part_and_says_what_is_missing(frontend: Frontend):
    unhurried(frontend)
    frontend.csv(*ONE_EACH)
    done = frontend.run("start", "--level_name=Fails", "--allow_partial")
    assert done.returncode == 0 and "the rest keeps running:\n  actor-0 on localhost" in done.stdout
    assert "Started 1 learner. Next commands" in done.stdout
    told = frontend.run("status")
    assert told.returncode == 1 and "failed: 3" in told.stdout and "running" in told.stdout


def test_where_there_is_nothing_left_to_train_all_is_taken_down(frontend: Frontend):
    frontend.csv(*EXAMPLE)
    done = frontend.run("start", "--level_name=Trained")
    assert done.returncode == 0
    assert "The learners ended at once, without an error: all frames are played" in done.stdout
    assert frontend.processes() == []
    assert "all frames are played" in frontend.run("logs", "--name=learner-1").stdout


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


def test_without_tmux_processes_run_detached(frontend: Frontend, tmp_path: Path):
    frontend.csv(*ONE_EACH)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "env").symlink_to(shutil.which("env") or "")
    bare = dataclasses.replace(frontend, env={**frontend.env, "PATH": str(tmp_path / "bin")})
    for one, flags in ((frontend, ["--tmux_sess="]), (bare, [])):
        started = one.run("start", *flags)
        assert started.returncode == 0 and "tmux attach" not in started.stdout
        assert frontend.tmux("list-sessions") == ""
        assert one.run("status").returncode == 0
        assert one.run("stop").returncode == 0 and frontend.processes() == []


def test_somebody_elses_tmux_session_is_left_alone(frontend: Frontend):
    frontend.csv(*ONE_EACH)
    frontend.tmux("new-session", "-d", "-s", "impala", "sleep 100")
    told = "there is a tmux session 'impala' already"
    for flags in ([], ["--allow_partial"]):
        done = frontend.run("start", *flags, "--stop_grace_s=1")
        assert done.returncode == 1 and told in done.stdout
    assert frontend.tmux("list-sessions", "-F", "#S") == "impala\n"


def test_a_window_of_ones_own_in_the_runs_session_stays(frontend: Frontend):
    frontend.csv(*ONE_EACH)

    def windows() -> list[str]:
        return sorted(frontend.tmux("list-windows", "-t", "impala", "-F", "#W").split())

    assert frontend.run("start").returncode == 0
    frontend.tmux("new-window", "-d", "-t", "impala:", "-n", "mine", "sleep 1000")
    for _ in range(2):
        assert frontend.run("stop").returncode == 0
        assert windows() == ["mine"]
        assert frontend.run("start").returncode == 0
        assert windows() == ["actor-0", "learner-0", "mine"]


def test_a_folders_name_is_no_command_of_tmux(frontend: Frontend, tmp_path: Path):
    folder = tmp_path / "a #(touch ran) b;"
    copy_project(folder)
    other = dataclasses.replace(frontend, folder=folder)
    other.csv(*ONE_EACH)
    try:
        started = other.run("start")
        assert started.returncode == 0, started.stdout
        assert other.tmux("display", "-p", "-t", "impala:", "#{pane_current_path}") == f"{folder}\n"
    finally:
        assert other.run("stop").returncode == 0


def test_processes_find_libraries_where_the_frontend_does(frontend: Frontend, tmp_path: Path):
    # A tmux server that was there before knows nothing of them.
    frontend.tmux("new-session", "-d", "-s", "other", "sleep 1000")
    frontend.env["LD_LIBRARY_PATH"] = str(tmp_path / "lib;")
    frontend.csv(*ONE_EACH)
    assert frontend.run("start").returncode == 0
    pid = state(frontend, "actor-0")["child"][0]
    environment = Path(f"/proc/{pid}/environ").read_text().split("\0")
    assert f"LD_LIBRARY_PATH={tmp_path}/lib;" in environment


def test_ctrl_s_in_a_window_does_not_halt_who_watches_over_its_process(frontend: Frontend):
    frontend.csv(*ONE_EACH)
    assert frontend.run("start").returncode == 0
    frontend.tmux("send-keys", "-t", "impala:actor-0", "C-s")
    wait_for(lambda: "reached localhost:18001 5 times" in frontend.run("logs").stdout)
    stopped = frontend.run("stop", "--stop_grace_s=30")
    assert stopped.stdout == "Stopped 1 learner and 1 actor.\n"


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


def test_a_closed_tmux_session_ends_its_processes(frontend: Frontend):
    frontend.csv(*EXAMPLE)
    assert frontend.run("start").returncode == 0
    frontend.tmux("kill-session", "-t", "impala")
    wait_for(lambda: not frontend.processes())


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


def test_an_actor_that_fails_is_started_again_and_what_its_keeper_left_is_stopped(
    frontend: Frontend,
):
    frontend.csv(*ONE_EACH)
    assert frontend.run("start", "--restart_actors=2").returncode == 0
    first = wait_for(lambda: state(frontend, "actor-0")["child"])
    assert send(first[0], first[1], signal.SIGKILL)
    second = wait_for(lambda: (s := state(frontend, "actor-0"))["restarts"] == 1 and s["child"])
    assert second != first and is_alive(*second)
    assert "failed with -9; restarting in 1 s" in frontend.run("logs").stdout

    keeper = state(frontend, "actor-0")["keeper"]
    assert send(keeper[0], keeper[1], signal.SIGKILL)
    assert "running, unsupervised" in frontend.run("status").stdout
    assert frontend.run("stop").returncode == 0
    assert not is_alive(*second) and frontend.processes() == []


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


def test_where_no_run_is_recorded_stop_says_so(frontend: Frontend):
    frontend.csv(*ONE_EACH)
    done = frontend.run("stop")
    assert done.returncode == 2 and "no run was started in logs/run" in done.stderr


def test_a_restart_that_cannot_succeed_leaves_the_run_alone(frontend: Frontend):
    frontend.csv(*ONE_EACH)
    assert frontend.run("start").returncode == 0
    before = frontend.processes()
    frontend.csv(f"{HEADER},python", f"{ONE_EACH[1]},", f"{ONE_EACH[2]},nowhere/python")
    refused = frontend.run("restart")
    assert refused.returncode == 1
    assert "Nothing was stopped or started. Fix this" in refused.stdout
    assert frontend.processes() == before
    # Its own ports and windows are in nobody's way.
    frontend.csv(*ONE_EACH)
    again = frontend.run("restart")
    assert again.returncode == 0, again.stdout
    assert again.stdout.startswith("Stopped 1 learner and 1 actor.\n")
