"""Learners under ``mpirun`` that train a world model together."""

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import experiment
from tests.trainer.cluster import experiment as command
from tests.trainer.cluster import mpirun
from tests.world_models.catch_model import flags
from trainer.storage.checkpoints import Checkpoint
from trainer.storage.played import read_all
from world_models.training import world_model

pytestmark = [pytest.mark.timeout(400), pytest.mark.xdist_group("trainer cluster")]

# Nothing is left to chance, so that each update is known.
PLAIN = {"target_frames": 1, "model_noise": 0, "model_dropout": 0, "model_updates": 6}


def learners(folder: Path, count: int = 2, **changes: Any) -> Any:
    return mpirun([command(*flags(folder, **PLAIN | changes))] * count)


def newest(folder: Path) -> Checkpoint:
    found = world_model.newest(folder / "world_model", print)
    assert found
    return found


def test_two_learners_make_the_updates_of_one(tmp_path):
    with learners(tmp_path / "two") as both:
        assert both.wait(250) == 0, both.output()
        assert both.output().count("Done. Play the real game") == 1
    for phase in ("collect", "model"):  # no policy is compared
        assert experiment.main(flags(tmp_path / "one", phase=phase, **PLAIN)) == 0
    plays = [read_all(tmp_path / name / "play", "Catch-v0") for name in ("one", "two")]
    assert (plays[0][0].part.frames == plays[1][0].part.frames).all()  # by chance, of one seed
    one, two = newest(tmp_path / "one"), newest(tmp_path / "two")
    assert one.counters["updates"] == two.counters["updates"] == 6
    for name, array in one.weights.items():
        np.testing.assert_allclose(two.weights[name], array, atol=2e-5)


def test_they_stop_together_and_go_on(tmp_path):
    with learners(tmp_path, model_updates=100_000) as both:
        both.wait_for("samples/s", 120)
        both.send_rank(1, signal.SIGTERM)
        assert both.wait(60) == 0, both.output()
        assert both.output().count("Stopped in model of epoch 0") == 1, both.output()
    before = newest(tmp_path).counters["updates"]
    assert before > 0
    with learners(tmp_path, model_updates=before + 3, phase="model") as both:
        assert both.wait(250) == 0, both.output()
    assert newest(tmp_path).counters["updates"] == before + 3


def test_a_batch_that_cannot_be_shared_is_refused(tmp_path):
    with learners(tmp_path, model_batch=5) as both:
        assert both.wait(120) == 2
        assert "--model_batch=5 cannot be shared evenly by 2 learners" in both.output()
    assert not (tmp_path / "play").exists()
