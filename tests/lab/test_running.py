"""Searches from start to end: killed, stopped, failing, hanging, on a full disk."""

import contextlib
import csv
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time

import psutil
import pytest

from lab.actions import starting
from lab.results import page, writing
from lab.running import slots
from lab.running.progress import Progress
from lab.running.runner import Runner
from lab.running.slots import Here
from lab.trials import plan, sessions
from lab.trials.folder import Experiment
from tests.cluster.terminal import Terminal
from tests.lab.conftest import PROJECT, QUICK
from trainer.storage.records import read_metrics


def wait_for(condition, seconds=60.0):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "never happened"
        time.sleep(0.02)


REWARD = "sutton_barto_reward=true"


def kept_by(lab, pattern):
    """The trials of which some session has such a file."""
    found = lab.only.glob(f"sessions/*/{pattern}")
    return {str(path.relative_to(lab.only)).split("/")[1].partition("_")[0] for path in found}


def test_a_search_proposes_confirms_and_names_a_winner(lab):
    said = lab.run("search", lab.spec(), "--data=data")
    trials = lab.trials()
    assert [one["kind"] for one in trials] == ["proposed"] * 6 + ["final"] * 2 + ["default"]
    assert all(one["state"] == "done" for one in trials)
    assert all(one["seeds"] == [1] for one in trials[:6])
    assert all(one["seeds"] == [1001, 1002, 1003] for one in trials[6:])
    rates = {one["values"]["learning_rate"] for one in trials[:6]}
    assert len(rates) == 6
    ranked = sorted(trials[:6], key=lambda one: -one["results"]["objective"])
    assert [one["of"] for one in trials[6:8]] == [one["number"] for one in ranked[:2]]
    result = json.loads((lab.only / "experiment_data.json").read_text())
    assert result["confirmed"] and result["winner"] in (6, 7, 8)
    assert f"Winner, with new seeds: t{result['winner']}" in said
    assert result["default_objective"] == trials[8]["results"]["objective"]
    # meta.keep: the winner and two others, although three trials with lucky seeds beat it.
    kept = kept_by(lab, "checkpoints/*.npz")
    assert len(kept) == 3 and f"t{result['winner']}" in kept
    beaten = trials[result["winner"]]["results"]["objective"]
    assert sum(one["results"]["objective"] > beaten for one in trials) >= 3
    assert kept_by(lab, "events.out.tfevents.1") == kept
    assert kept_by(lab, "events.out.tfevents.0.hparams") == {f"t{number}" for number in range(9)}
    for log in lab.only.glob("sessions/*/train.log"):
        whole = log.parent.name.partition("_")[0] in kept
        assert log.read_text().endswith("the last line\n")
        assert log.stat().st_size > 70_000 if whole else log.stat().st_size <= 20_000
    with open(lab.only / "mine_experiment_df.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    objectives = [float(row["objective"]) for row in rows]
    assert objectives == sorted(objectives, reverse=True) and len(rows) == 9
    for ending in ("t0_s0_session_df.csv", "t0_s0_session_graph.png", "t8_trial_fitness_df.csv"):
        assert (lab.only / "trials" / f"mine_{ending}").stat().st_size > 100
    assert (lab.only / "mine_experiment_graph.png").stat().st_size > 1000
    assert "t0" in lab.run("status", "--data=data")
    # Without its checkpoints another trial is played, which is said.
    winner = f"t{result['winner']}"
    for folder in lab.only.glob(f"sessions/{winner}_s*/checkpoints"):
        shutil.rmtree(folder)
    said = lab.run("enjoy", "--data=data", "--", "--nothing=2", code=2)
    assert f"No checkpoint of {winner}, which did better.\nt" in said


def test_a_terminal_shows_all_running_sessions_in_a_panel(lab):
    spec = lab.write(
        {"level": "CartPole-v1", "settings": {"total_environment_frames": 2000},
         "meta": {"search": "grid", "finalists": 0, "resources": {"memory_gb": 0.1}},
         "search": {"settings": {"learning_rate": [0.0006, 0.001, 0.002]}}}
    )  # fmt: skip
    env = os.environ | {"PYTHONPATH": str(PROJECT), "TERM": "xterm", "COLUMNS": "120"}
    with Terminal(
        lab.command("search", spec, "--data=data", "--cores=1"), lab.folder, env
    ) as shown:
        for text in ("mine · search", "t1_s0", "learning_rate 0.001", "━", "1 of 3 trials ended",
                     "best t0 ", " left", "t2 done · fitness"):  # fmt: skip
            shown.wait_for(text)
        assert shown.wait() == 0
        assert "Best trial: t0" in shown.shown and "started" not in shown.shown


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
        wait_for(session.written)
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


def test_failing_and_hanging_trials_are_reported_and_the_rest_goes_on(lab):
    spec = lab.write(
        {
            "level": "CartPole-v1",
            "settings": {"total_environment_frames": 1000, "report_every_s": 0.5},
            "meta": {"search": "grid", "finalists": 0, "silent_timeout_s": 2, "retries": 1,
                     "resources": {"memory_gb": 0.1}},
            "search": {"settings": {"reporters": ["hangs", "raises", "none", "other"]}},
        }
    )  # fmt: skip
    said = lab.run("search", spec, "--data=data", code=1)
    states = {one["values"]["reporters"]: one for one in lab.trials()}
    assert states["none"]["state"] == states["other"]["state"] == "done"
    assert re.search(r"hanging after ([2-9]|\d\d+) s", states["hangs"]["reason"])
    assert states["raises"]["reason"] == "s0: the level has raised something"
    assert len(lab.starts()["t1_s0"]) == 1  # its second attempt began afresh
    assert "t1 s0 failed (the level has raised something); it runs again." in said
    assert "Failed: t0, t1. bin/lab retry" in said
    assert "t3 is done; expected a failed one" in lab.run("retry", str(lab.only), "t3", code=2)
    (lab.only / "mended").touch()
    assert "t1 will run again" in lab.run("retry", str(lab.only), "t1")
    lab.run("search", str(lab.only), "--data=data", code=1)
    assert [one["state"] for one in lab.trials()] == ["failed", "done", "done", "done"]
    assert "is finished" in lab.run("search", str(lab.only), "--data=data")


def test_a_trial_whose_world_raises_is_reported_and_the_rest_goes_on(lab):
    spec = lab.write(
        {"level": "tests.lab.level_that_fails:Fails", "settings": {"total_environment_frames": 500},
         "meta": {"search": "grid", "finalists": 0, "resources": {"memory_gb": 0.1}},
         "search": {"settings": {"env_kwargs": ["broken=true", ""]}}}
    )  # fmt: skip
    said = lab.run("search", spec, "--data=data", code=1)
    [line] = [one for one in said.splitlines() if one.startswith("t0 failed")]
    assert "random play on tests.lab.level_that_fails:Fails env_kwargs=broken=true" in line
    assert line.endswith("the simulator has lost its licence")
    assert [one["state"] for one in lab.trials()] == ["failed", "done"]


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
    assert process.returncode == 128 + signal.SIGINT and "The same command goes on" in said
    assert lab.trials()[0]["state"] == "open" and not measuring.is_running()


def test_nothing_is_left_of_sessions_that_outlive_their_trial(lab):
    spec = lab.write(
        {"level": "CartPole-v1", "settings": {"reporters": "none"},
         "meta": {"sessions": 2, "keep": 1, "resources": {"memory_gb": 0.1}}}
    )  # fmt: skip
    process = lab.start("train", spec, "--data=data")
    # The first one dies, and the trial fails; the other is asked to end, which takes it a second.
    wait_for(lambda: len(list(lab.data.glob("*/sessions/*/checkpoints/best.npz"))) == 2)
    state = json.loads((lab.only / "sessions/t0_s0/session.json").read_text())
    psutil.Process(state["child"]["pid"]).kill()
    said, _ = process.communicate(timeout=60)
    assert "t0 failed: s0: " in said
    assert (lab.only / "sessions/t0_s1/metrics.jsonl").exists()
    assert not list(lab.only.glob("sessions/*/checkpoints"))


def test_a_session_ends_when_its_time_is_over(lab):
    spec = lab.write(
        {"level": "CartPole-v1", "settings": {"reporters": "hangs"},
         "meta": {"session_timeout_s": 1, "resources": {"memory_gb": 0.1}}}
    )  # fmt: skip
    said = lab.run("train", spec, "--data=data", code=1)
    assert re.search(r"t0 failed: s0: timed out after [1-9]\d* s", said)


def test_a_full_disk_is_reported_and_it_goes_on_when_there_is_room(lab):
    disk = lab.folder / "data"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "none", disk]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount")
    try:
        process = lab.start("search", lab.spec(finalists=0), "--data=data")
        wait_for(lambda: list(disk.glob("*/sessions/*/metrics.jsonl")))
        ballast = disk / "ballast"
        with contextlib.suppress(OSError), open(ballast, "wb", buffering=0) as file:
            while True:
                file.write(b"x" * 512)
        assert process.stdout
        assert any("goes on once there is room" in line for line in process.stdout)
        ballast.unlink()
        process.communicate(timeout=60)
        states = {one["state"] for one in lab.trials()}
        assert states <= {"done", "failed"} and "done" in states
    finally:
        subprocess.run(["umount", "-l", disk], check=False)


def test_trials_that_lag_behind_end_early(lab):
    content = {
        "level": "CartPole-v1",
        "settings": {"keep_checkpoints": 1},  # and frames as the trainer chooses
        "meta": {"search": "grid", "finalists": 0, "early_stopping": "halving",
                 "resources": {"memory_gb": 0.1}},
        "search": {"settings": {"learning_rate": [0.0006, 0.003, 0.004, 0.005]}},
    }  # fmt: skip
    said = lab.run("search", lab.write(content), "--data=data")
    trials = lab.trials()
    early = [one for one in trials if one["state"] == "stopped early"]
    assert early and "% of its frames" in said
    assert trials[0]["state"] == "done"  # the best


@pytest.mark.timeout(600)
def test_many_experiments_run_from_one_file(lab):
    (lab.folder / "specs.json").write_text(
        json.dumps({name: {"level": "CartPole-v1", "settings": {"total_environment_frames": 500},
                           "meta": {"resources": {"memory_gb": 0.1}}} for name in ("one", "two")})
    )  # fmt: skip
    many = lab.folder / "experiments.json"
    many.write_text(json.dumps({"specs.json": {"one": "train", "two": "trian"}}))
    refused = lab.run("run", str(many), "--data=data", code=2)
    assert 'specs.json.two: found "trian"; expected a mode, such as ' in refused
    assert refused.endswith("Did you mean train?\n")
    assert not lab.data.exists()
    many.write_text(json.dumps({"specs.json": "train classic"}))
    assert 'specs.json: found "train classic"; expected' in lab.run("run", str(many), code=2)
    many.write_text(json.dumps({"specs.json": {"one": "train", "two": "dev"}}))
    said = lab.run("run", str(many), "--data=data", "--detach")
    assert "its output is in data/experiments.log" in said
    log = lab.data / "experiments.log"
    wait_for(lambda: log.exists() and log.read_text().count("Look at ") == 2, 300)
    assert len(list(lab.data.glob("*/experiment_data.json"))) == 2
    # One after the other, with both cores for each.
    first, second = sorted(lab.data.glob("*/"))
    ended = (first / "experiment_data.json").stat().st_mtime
    assert json.loads((second / "sessions/t0_s0/session.json").read_text())["started"] >= ended
    names = sorted(path.name.partition("_20")[0] for path in lab.data.glob("*/"))
    assert names == ["one", "two_dev"]
    # A list that was stopped on its way goes on, and what is finished does not run again.
    (second / "experiment_data.json").unlink()
    said = lab.run("run", str(many), "--data=data")
    assert f"{first.relative_to(lab.folder)} is finished." in said
    assert f"Going on with {second.relative_to(lab.folder)}" in said
    assert len(list(lab.data.glob("*/"))) == 2
    data = str(lab.data)
    said = lab.run("compare", str(first), str(second), f"--out={lab.folder}/both")
    assert "| one | t0 | 1 | CartPole-v1 |" in said and (lab.folder / "both.png").exists()
    lab.run("watch", data, str(lab.folder / "copied"), "--once")
    copied = {path.name for path in (lab.folder / "copied").rglob("*") if path.is_file()}
    assert {"index.html", "metrics.jsonl", "spec.json"} <= copied and "best.npz" not in copied


def test_a_frozen_spec_repeats_an_experiment(lab):
    lab.run("search", lab.spec(trials=3, finalists=0), "--data=data")
    first = lab.trials()
    lab.run("search", str(lab.only / "spec.json"), "--data=again")
    alone = str(lab.only / "trials" / "mine_t1_spec.json")
    lab.run("train", alone, "--data=alone")
    lab.data = lab.folder / "again"
    assert [one["values"] for one in lab.trials()] == [one["values"] for one in first]
    lab.data = lab.folder / "alone"
    assert lab.trials()[0]["results"]["final_return"] == first[1]["results"]["final_return"]


def test_a_benchmark_is_a_table_of_specs_and_levels(lab):
    meta = {"sessions": 2, "resources": {"memory_gb": 0.1}}
    content = {
        name: {"level": "CartPole-v1", "settings": settings | {"total_environment_frames": 500},
               "meta": meta}
        for name, settings in (("slow", {"learning_rate": 0.004}), ("fast", {}))
    }  # fmt: skip
    content["fast"]["by_level"] = {"CartPole-v1": {"env_kwargs": REWARD}}
    (lab.folder / "peers.json").write_text(json.dumps(content))
    refused = lab.run("benchmark", "peers.json", "--levels=clasic", "--data=data", code=2)
    assert "found clasic; expected a set or levels. Did you mean classic?" in refused
    (lab.folder / "many.json").write_text('{"peers.json": "benchmark CartPole-v1,Catch-v0"}')
    said = lab.run("run", "many.json", "--data=data")
    assert f"Scores: {lab.only.relative_to(lab.folder)}/peers_benchmark_benchmark.md" in said
    measured = json.loads((lab.only / "random_play.json").read_text())
    assert list(measured) == ["CartPole-v1", "Catch-v0", f"CartPole-v1 env_kwargs={REWARD}"]
    text = next(lab.only.glob("*_benchmark.md")).read_text().splitlines()
    assert text[0] == "| spec | CartPole-v1 | Catch-v0 | median | interquartile mean |"
    assert text[2].startswith("| slow | ") and text[3].startswith("| fast | 1.0")
    assert len(lab.trials()) == 4
