"""Labs and sessions that were killed or stopped, and go on."""

import contextlib
import errno
import json
import os
import random
import signal
import subprocess
import time

import psutil
import pytest

from lab.actions import looking, starting
from lab.results import page, writing
from lab.running import slots
from lab.running.progress import Progress
from lab.running.runner import Runner
from lab.running.slots import Here
from lab.trials import plan, sessions
from lab.trials.folder import Experiment
from tests.lab.conftest import QUICK, wait_for
from trainer.storage.records import read_metrics


def test_killed_at_any_moment_it_goes_on_and_runs_nothing_twice(lab):
    spec, chance = lab.spec(trials=10, finalists=0), random.Random(0)
    for _ in range(6):
        process = lab.start("search", spec, "--data=data")
        assert process.stdout and process.stdout.readline()  # it is about to start
        time.sleep(1.5 * chance.random())
        process.kill()
        process.communicate()
    lab.run("search", spec, "--data=data")
    trials = lab.trials()
    assert [one["number"] for one in trials] == list(range(10))
    assert all(one["state"] == "done" for one in trials)
    assert len({one["values"]["learning_rate"] for one in trials}) == 10
    # Sessions outlive the lab: none is started a second time.
    assert set(map(len, lab.starts().values())) == {1}


class Killed(BaseException):
    """Ends a lab as a kill does: nothing more is written."""


def test_a_lab_that_was_killed_before_its_last_page_writes_it_with_the_next_start(lab, monkeypatch):
    def killed(experiment, trials, *_):
        if trials and all(one.state == "done" for one in trials):
            raise Killed

    path = lab.write({"level": "CartPole-v1", "settings": {"total_environment_frames": 1000},
                      "meta": {"resources": {"memory_gb": 0.1}}})  # fmt: skip
    spec, extra = starting.prepare("train", path, "")
    experiment = Experiment.create(spec, "train", lab.data, extra)
    with monkeypatch.context() as patched:
        patched.setattr(sessions, "PROJECT", QUICK)
        patched.setattr(page, "write", killed)
        patched.setattr(writing, "write", lambda *_: None)  # only the last page is missing
        patched.setattr(writing, "is_written", lambda *_: True)
        with pytest.raises(Killed):
            Runner(experiment, Here(experiment.spec.meta.resources), Progress("killed")).run()
    assert not (lab.only / "index.html").exists()
    assert "Going on with data/" in lab.run("train", path, "--data=data")
    assert '"state": "finished"' in (lab.only / "index.html").read_text()
    assert lab.starts() == {"t0_s0": ["1"]}


@pytest.mark.parametrize("killed", [False, True])
def test_a_trial_that_lags_behind_ends_although_it_could_not_be_closed_at_once(
    lab, monkeypatch, killed
):
    meta = {"early_stopping": "halving", "objective": "best_return"}
    spec, extra = starting.prepare("search", lab.spec(**meta), "")
    experiment = Experiment.create(spec, "search", lab.data, extra)
    known = {"CartPole-v1": {"return": 20.0, "deviation": 1.0, "episodes": 100}}
    (experiment.folder / "random_play.json").write_text(json.dumps(known))

    def begun() -> Runner:
        runner = Runner(experiment, Here(spec.meta.resources), Progress("full"))
        assert runner._begin() and runner._proposals
        return runner

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    runner = begun()
    for height in (200.0, 100.0):
        [trial] = runner._new_trials()
        experiment.save(trial)
        runner._trials.append(trial)
        [session] = experiment.sessions(trial)
        session.folder.mkdir(parents=True)
        row = {"environment_frames": 300, "recent_episodes": 100, "mean_episode_return": height}
        (session.folder / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    runner._look_at(runner._trials[0])
    with monkeypatch.context() as patched, pytest.raises(OSError):
        patched.setattr(experiment, "save", full)
        runner._look_at(runner._trials[1])
    runner = begun() if killed else runner
    for trial in runner._trials:
        runner._look_at(trial)
    assert [one.state for one in experiment.trials()] == ["open", "stopped early"]


def test_of_what_runs_only_the_last_reports_are_read(lab, monkeypatch):
    """A session of some hours has many thousands."""

    def read(_):
        raise AssertionError("all were read")

    spec, extra = starting.prepare("search", lab.spec(early_stopping="halving"), "")
    experiment = Experiment.create(spec, "search", lab.data, extra)
    known = {"CartPole-v1": {"return": 20.0, "deviation": 1.0, "episodes": 100}}
    (experiment.folder / "random_play.json").write_text(json.dumps(known))
    runner = Runner(experiment, Here(spec.meta.resources), Progress("hours"))
    assert runner._begin()
    [trial] = runner._new_trials()
    experiment.save(trial)
    runner._trials.append(trial)
    runner._taken = {(0, 0): 0}
    [session] = experiment.sessions(trial)
    session.folder.mkdir(parents=True)
    rows = [{"environment_frames": frames, "mean_episode_return": 9.0} for frames in (100, 200)]
    (session.folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    monkeypatch.setattr(sessions, "read_metrics", read)
    runner._look_at(trial)  # before the first quarter of its frames
    [running] = runner._snapshot().running
    assert (running.frames, running.mean_return) == (200, 9.0)
    assert looking.status(str(experiment.folder), lab.data) == 0


def test_a_session_that_outlives_its_lab_keeps_its_cores(lab, monkeypatch):
    monkeypatch.setattr(slots, "slots", lambda *_: [[0], [1], [2]])
    monkeypatch.setattr(sessions, "PROJECT", QUICK)
    path = lab.write({"level": "CartPole-v1", "settings": {"reporters": "hangs"},
                      "meta": {"sessions": 2, "resources": {"memory_gb": 0.1}}})  # fmt: skip
    spec, extra = starting.prepare("train", path, "")
    experiment = Experiment.create(spec, "train", lab.data, extra)
    places = Here(spec.meta.resources)
    [trial] = plan.fixed(experiment)
    experiment.save(trial)
    for slot, session in zip((2, 0), experiment.sessions(trial), strict=True):
        places.start(session, slot, spec.meta)
        # Whoever ends the test knows by then what is to be killed.
        wait_for(lambda: session.written().get("child"))  # noqa: B023
    runner = Runner(experiment, places, Progress("next"))
    runner._take_over()
    assert runner._taken == {(0, 0): 2, (0, 1): 0} and runner._free_slot() == 1
    monkeypatch.setattr(places, "_slots", [[0, 1], [2, 3]])  # it has become another number
    runner._taken = {}
    runner._take_over()
    assert sorted(runner._taken.values()) == [0, 1]


def test_a_session_that_was_killed_with_the_lab_resumes(lab):
    spec = lab.write(
        {"level": "CartPole-v1", "settings": {"total_environment_frames": 3000},
         "meta": {"resources": {"memory_gb": 0.1}}}
    )  # fmt: skip
    process = lab.start("train", spec, "--data=data")
    wait_for(lambda: list(lab.data.glob("*/sessions/t0_s0/metrics.jsonl")))
    state = json.loads((lab.only / "sessions/t0_s0/session.json").read_text())
    process.kill()
    process.communicate()
    for which in ("keeper", "child"):
        psutil.Process(state[which]["pid"]).kill()
    said = lab.run("train", spec, "--data=data")
    assert "Going on with data/" in said
    assert lab.starts()["t0_s0"] == ["1", "1"]
    rows = read_metrics(lab.only / "sessions/t0_s0")
    assert [row["environment_frames"] for row in rows] == list(range(300, 3001, 300))


def test_a_search_whose_study_is_lost_goes_on_with_its_records(lab):
    lab.run("search", lab.spec(trials=2, finalists=0), "--data=data")
    first = [one["values"] for one in lab.trials()]
    for name in ("study.sqlite3", "experiment_data.json"):
        (lab.only / name).unlink()
    spec = json.loads((lab.only / "spec.json").read_text())
    spec["mine"]["meta"]["trials"] = 3
    (lab.only / "spec.json").write_text(json.dumps(spec))
    lab.run("search", str(lab.only))
    assert [one["values"] for one in lab.trials()[:2]] == first
    assert [one["proposal"] for one in lab.trials()] == [0, 1, 2]
    assert all(one["state"] == "done" for one in lab.trials())


def test_stop_ends_its_own_sessions_only_and_the_same_command_goes_on(lab):
    bystander = subprocess.Popen(["sleep", "60"])
    spec = lab.write(
        {"level": "CartPole-v1", "settings": {"reporters": "hangs"},
         "meta": {"resources": {"memory_gb": 0.1}}}
    )  # fmt: skip
    process = lab.start("train", spec, "--data=data")
    wait_for(lambda: list(lab.data.glob("*/sessions/t0_s0/starts.txt")))
    state = json.loads((lab.only / "sessions/t0_s0/session.json").read_text())
    assert "running" in lab.run("status", "--data=data")
    refused = lab.run("clear", str(lab.only), "--yes", code=2)
    assert "is running; stop it first" in refused
    assert "is stopped" in lab.run("stop", "--data=data")
    assert not psutil.pid_exists(state["child"]["pid"]) and bystander.poll() is None
    assert process.wait() == 128 + signal.SIGTERM
    bystander.kill()
    bystander.wait()
    assert lab.trials()[0]["state"] == "open"
    folder = str(lab.only)
    for answer in ("n\n", "\n", ""):
        said = lab.run("clear", folder, typed=answer, code=1)
        assert f"Remove {folder} with " in said and "Nothing was removed." in said
    assert "is removed" in lab.run("clear", folder, typed="y\n")
    assert not list(lab.data.iterdir())


def test_a_stop_while_random_play_is_measured_leaves_the_trial_open(lab):
    spec = lab.write(
        {"level": "tests.lab.level_that_fails:Hangs",
         "settings": {"total_environment_frames": 500, "env_kwargs": "broken=false"},
         "meta": {"search": "grid", "finalists": 0, "resources": {"memory_gb": 0.1}},
         "search": {"settings": {"env_kwargs": ["broken=true"]}}}
    )  # fmt: skip
    process = lab.start("search", spec, "--data=data")

    found = []

    def measures():
        with contextlib.suppress(psutil.Error):
            for one in psutil.Process(process.pid).children():
                words = one.cmdline()
                if "lab.results.random_play" in words and "broken=true" in words[-1]:
                    found.append(one)
        return found

    wait_for(measures)
    measuring = found[0]
    assert os.getpgid(measuring.pid) != os.getpgid(process.pid)  # Ctrl-C does not reach it
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT and "same command, without --new, goes" in said
    assert lab.trials()[0]["state"] == "open" and not measuring.is_running()
