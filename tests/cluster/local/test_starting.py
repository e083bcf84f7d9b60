"""Starts on this machine: real tmux, real mpirun, a quick stand-in for experiment.py."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from cluster.actions.seen import Seen, SeenPart
from cluster.backends.ssh import starting
from cluster.options import Options
from cluster.record import record_of
from tests.cluster.conftest import ROOT, Frontend, wait_for
from tests.cluster.local.runs import EXAMPLE, HEADER, ON_THIS_MACHINE, ONE_EACH, unhurried
from tests.cluster.plan.plans import plan, row

pytestmark = ON_THIS_MACHINE


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


def test_a_level_that_there_is_not_is_told_before_anything_starts(tmp_path):
    csv = ROOT / "sandbox" / "local_workers_example.csv"
    flags = [f"--workers_csv_path={csv}", f"--logdir={tmp_path / 'run'}", "--level_name=CartPol-v1"]
    command = [sys.executable, str(ROOT / "run_experiment_mm_raw.py"), *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2 and done.stdout == "" and list(tmp_path.iterdir()) == []
    assert done.stderr.count("\n") == 1 and "Did you mean CartPole-v1" in done.stderr


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


def test_what_has_failed_is_not_waited_for(monkeypatch: pytest.MonkeyPatch):
    made = plan([row("learner", "localhost", port) for port in (8001, 8002)], "--algorithm=a3c")
    run = record_of(made, "")
    states = ("running", "failed: 3")
    parts = [SeenPart(part, state) for part, state in zip(run.parts, states, strict=False)]
    seen = Seen(parts, dict(zip(run.listeners, (True, False), strict=True)), {}, {})
    monkeypatch.setattr(starting, "SETTLE_S", 0.0)
    monkeypatch.setattr(starting.looking, "look", lambda *_: seen)
    options, hosts = Options(allow_partial=True, start_timeout_s=1.0), cast(Any, None)
    problems, _ = starting._wait(run, options, hosts, [])
    assert problems == ["  learner-1 on localhost: failed: 3"]


def test_where_there_is_nothing_left_to_train_all_is_taken_down(frontend: Frontend):
    frontend.csv(*EXAMPLE)
    done = frontend.run("start", "--level_name=Trained")
    assert done.returncode == 0
    assert "The learners ended at once, without an error: all frames are played" in done.stdout
    assert frontend.processes() == []
    assert "all frames are played" in frontend.run("logs", "--name=learner-1").stdout
