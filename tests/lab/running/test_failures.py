"""Trials that fail, hang or take too long, and a full disk."""

import contextlib
import json
import re
import subprocess

import psutil
import pytest

from tests.lab.conftest import wait_for


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


def test_a_level_without_a_result_of_random_play_is_not_in_the_way_of_others(lab):
    fails = "tests.lab.level_that_fails:Fails"
    spec = lab.write(
        {"level": "CartPole-v1", "settings": {"total_environment_frames": 500},
         "by_level": {fails: {"env_kwargs": "broken=true"}},
         "meta": {"resources": {"memory_gb": 0.1}}}
    )  # fmt: skip
    said = lab.run("benchmark", spec, f"--levels={fails},CartPole-v1", "--data=data", code=1)
    assert "Without a score, trials will fail: random play on" in said
    assert [one["state"] for one in lab.trials()] == ["failed", "done"]
    assert lab.trials()[0]["reason"].endswith("the simulator has lost its licence")
    table = next(lab.only.glob("*_benchmark.md")).read_text()
    assert "| mine | – | 1.0" in table and ", 1 of 2 levels |" in table
    lab.data = lab.folder / "alone"
    content = {"level": fails, "settings": {"env_kwargs": "broken=true"},
               "meta": {"resources": {"memory_gb": 0.1}}}  # fmt: skip
    said = lab.run("train", lab.write(content), "--data=alone", code=2)
    assert said.splitlines()[-1].endswith("the simulator has lost its licence")


def test_what_keeps_an_experiment_from_running_is_not_in_the_way_of_the_others_of_a_list(lab):
    meta = {"resources": {"memory_gb": 0.1}}
    content = {
        "fails": {"level": "tests.lab.level_that_fails:Fails", "meta": meta,
                  "settings": {"total_environment_frames": 500, "env_kwargs": "broken=true"}},
        "works": {"level": "CartPole-v1", "meta": meta,
                  "settings": {"total_environment_frames": 500}},
    }  # fmt: skip
    (lab.folder / "specs.json").write_text(json.dumps(content))
    (lab.folder / "many.json").write_text('{"specs.json": {"fails": "train", "works": "train"}}')
    said = lab.run("run", "many.json", "--data=data", code=2)
    [line] = [one for one in said.splitlines() if one.startswith("lab: ")]
    assert line.startswith("lab: specs.json:fails: random play on tests.lab.level_that_fails")
    assert line.endswith("the simulator has lost its licence")
    [finished] = lab.data.glob("*/experiment_data.json")
    assert finished.parent.name.startswith("works_")


def test_nothing_is_left_of_sessions_that_outlive_their_trial(lab):
    spec = lab.write(
        {"level": "CartPole-v1", "settings": {"reporters": "none"},
         "meta": {"sessions": 2, "keep": 1, "search": "grid", "finalists": 0,
                  "resources": {"memory_gb": 0.1}},
         "search": {"settings": {"learning_rate": [0.001]}}}
    )  # fmt: skip
    process = lab.start("search", spec, "--data=data")
    # The first one dies, and the trial fails; the other is asked to end, which takes it a second.
    wait_for(lambda: len(list(lab.data.glob("*/sessions/*/checkpoints/best.npz"))) == 2)
    state = json.loads((lab.only / "sessions/t0_s0/session.json").read_text())
    psutil.Process(state["child"]["pid"]).kill()
    said, _ = process.communicate(timeout=60)
    assert "t0 failed: s0: killed by signal 9 (SIGKILL)" in said
    assert (lab.only / "sessions/t0_s1/metrics.jsonl").exists()
    assert not list(lab.only.glob("sessions/*/checkpoints"))


def test_a_training_in_which_no_episode_ended_keeps_its_checkpoint(lab):
    content = {"level": "CartPole-v1",
               "settings": {"total_environment_frames": 500, "reporters": "silent"},
               "meta": {"keep": 1, "search": "grid", "finalists": 0,
                        "resources": {"memory_gb": 0.1}}}  # fmt: skip
    spec = lab.write(content)
    lab.run("train", spec, "--data=data")
    assert lab.trials()[0]["results"]["objective"] is None
    assert list(lab.only.glob("sessions/t0_s0/checkpoints/*.npz"))
    assert "t0 s0, seed 1: " in lab.run("enjoy", "--data=data", "--", "--nothing=2", code=2)
    lab.data = lab.folder / "searched"
    searched = {"search": {"settings": {"reporters": ["raises", "silent"]}}}
    lab.run("search", lab.write(content | searched), "--data=searched", code=1)
    assert list(lab.only.glob("sessions/t1_s0/checkpoints/*.npz"))


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
        spec = lab.write(
            {"level": "CartPole-v1", "settings": {"total_environment_frames": 2000},
             "meta": {"search": "grid", "finalists": 0, "resources": {"memory_gb": 0.1}},
             "search": {"settings": {"learning_rate": [0.0006, 0.001]}}}
        )  # fmt: skip
        process = lab.start("search", spec, "--data=data")
        wait_for(lambda: list(disk.glob("*/sessions/*/metrics.jsonl")))
        ballast = disk / "ballast"
        with contextlib.suppress(OSError), open(ballast, "wb", buffering=0) as file:
            while True:
                file.write(b"x" * 512)
        assert process.stdout
        assert any("goes on once there is room" in line for line in process.stdout)
        state = json.loads((lab.only / "sessions/t0_s0/session.json").read_text())
        wait_for(lambda: not psutil.pid_exists(state["child"]["pid"]))  # it came to its end
        ballast.unlink()
        said, _ = process.communicate(timeout=60)
        assert "t0 s0 could not be saved; it resumes once there is room." in said
        assert [one["state"] for one in lab.trials()] == ["done", "done"]
        # Also in vain, where what another program gave up made room for a moment.
        first, second, *in_vain = lab.starts()["t0_s0"]
        assert {first, second, *in_vain} == {"1"}
    finally:
        subprocess.run(["umount", "-l", disk], check=False)
