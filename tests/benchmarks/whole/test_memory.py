"""The benchmark of memory runs a learner and an actor, and knows a slope when it sees one."""

import json

import numpy as np
import pytest

from benchmarks.whole import memory
from tests.benchmarks.whole.stopping import stopped_at

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
    assert (tmp_path / "memory.png").stat().st_size > 5_000


def test_runs_that_have_ended_are_written_when_it_is_stopped(tmp_path, monkeypatch):
    rows = np.stack([np.arange(10.0), np.full(10, 500.0)], axis=1)
    watched = stopped_at(2, (["learner"], rows, {"the learner": 0.5}))
    monkeypatch.setattr(memory, "watch", watched)
    with pytest.raises(KeyboardInterrupt):
        memory.measure(["--repeats=3", f"--results={tmp_path}"])
    kept = json.loads((tmp_path / "memory.json").read_text())
    assert len(kept["rows"]) == len(kept["curves"]) == len(kept["waited"]) == 1


def test_a_slope_is_in_megabytes_a_minute():
    seconds = np.arange(0.0, 600.0)
    rows = np.stack([seconds, np.full(600, 500.0), 700 + seconds / 30], axis=1)
    assert memory.slopes(rows) == pytest.approx([0.0, 2.0], abs=1e-6)
