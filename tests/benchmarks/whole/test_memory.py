"""The benchmark of memory runs a learner and an actor, and knows a slope when it sees one."""

import json

import numpy as np
import pytest

from benchmarks.whole import memory

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


def test_a_slope_is_in_megabytes_a_minute():
    seconds = np.arange(0.0, 600.0)
    rows = np.stack([seconds, np.full(600, 500.0), 700 + seconds / 30], axis=1)
    assert memory.slopes(rows) == pytest.approx([0.0, 2.0], abs=1e-6)
