"""The benchmark of memory runs a learner and an actor, and knows a slope when it sees one."""

import numpy as np
import pytest

from benchmarks import memory


def test_a_learner_and_its_actor_are_watched(capsys):
    small = ["--level_name=CartPole-v1", "--envs_per_actor=4", "--batch_size=4", "--env_threads=1"]
    assert memory.main(["--seconds=3", "--actors=1", *small]) in (0, 1)
    told = capsys.readouterr().out
    assert "learner" in told and "actor 0" in told and "slope, MB a minute: " in told
    sizes = [line.split() for line in told.splitlines() if line.strip()[:1].isdigit()]
    assert all(float(size) > 50 for row in sizes for size in row[1:])


def test_a_slope_is_of_what_comes_after_the_first_fifth():
    seconds = np.arange(0.0, 600.0)
    grown = np.where(seconds < 100, seconds * 5, 500)
    rows = np.stack([seconds, grown, 700 + seconds / 30], axis=1)
    assert memory.slopes(rows) == pytest.approx([0.0, 2.0], abs=1e-6)
