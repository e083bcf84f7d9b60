"""The benchmark of memory runs a learner and an actor, and knows a slope when it sees one."""

import json
import os
import subprocess
import sys

import numpy as np
import psutil
import pytest

from benchmarks.whole import memory
from tests.benchmarks.whole.stopping import stopped_at
from tests.pictures import coloured

pytestmark = pytest.mark.xdist_group("benchmarks")


def test_a_learner_and_its_actor_are_watched(tmp_path, capsys):
    small = ["--level_name=CartPole-v1", "--envs_per_actor=4", "--batch_size=4", "--env_threads=1"]
    memory.measure(["--seconds=3", "--actors=1", *small, f"--results={tmp_path}"])
    told = capsys.readouterr().out
    assert "steepest: " in told and "its actors waited" in told
    kept = json.loads((tmp_path / "memory.json").read_text())
    assert [row["process"] for row in kept["rows"]] == ["learner", "actor 0"]
    assert all(row["MB at the end"] > 50 for row in kept["rows"])
    assert len(kept["curves"][0]["seconds and MB"]) >= 3
    assert coloured(tmp_path / "memory.png") > 0


def test_runs_that_have_ended_are_written_when_it_is_stopped(tmp_path, monkeypatch):
    rows = np.stack([np.arange(10.0), np.full(10, 500.0)], axis=1)
    watched = stopped_at(2, memory.Watched(["learner"], rows, {"the learner": 0.5}))
    monkeypatch.setattr(memory, "watch", lambda own, settings, keep: keep(watched()))
    with pytest.raises(KeyboardInterrupt):
        memory.measure(["--repeats=3", f"--results={tmp_path}"])
    kept = json.loads((tmp_path / "memory.json").read_text())
    assert len(kept["rows"]) == len(kept["curves"]) == len(kept["waited"]) == 1


class Stopped(memory.Trainer):
    """This process and its parent as learner and actor; Ctrl-C comes at the fifth look."""

    def __enter__(self):
        self.look = stopped_at(5, None)
        return self

    def __exit__(self, *_):
        pass

    @property
    def roles(self):
        return {os.getpid(): "learner", os.getppid(): "actor"}

    def wait_for_update(self):
        return 1.0

    def run_for(self, seconds):
        self.look()

    def reports(self):
        return [{"learner_wait_share": 0.25}]


def test_a_run_that_is_stopped_on_its_way_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "Trainer", Stopped)
    with pytest.raises(KeyboardInterrupt):
        memory.measure(["--actors=1", f"--results={tmp_path}"])
    kept = json.loads((tmp_path / "memory.json").read_text())
    assert [row["process"] for row in kept["rows"]] == ["learner", "actor 0"]
    assert len(kept["curves"][0]["seconds and MB"]) == 5
    assert kept["waited"] == ["watched for 0 s, the learner waited 25% of the time"]


def test_memory_of_a_process_includes_those_that_it_has_started():
    holds = "held = b'x' * 50_000_000; print('ready', flush=True); input()"
    before = memory.resident(psutil.Process())
    with subprocess.Popen(
        [sys.executable, "-c", holds], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout and child.stdout.readline() == b"ready\n"
        with_it = memory.resident(psutil.Process())
        child.kill()
    assert with_it > before + 50


def test_a_slope_is_in_megabytes_a_minute():
    seconds = np.arange(0.0, 600.0)
    rows = np.stack([seconds, np.full(600, 500.0), 700 + seconds / 30], axis=1)
    assert memory.slopes(rows) == pytest.approx([0.0, 2.0], abs=1e-6)
