"""Updates of a world model: what a batch's pieces add up to, and which checkpoint is the newest."""

import numpy as np
import pytest

from tests.world_models.catch_model import played, small, spec_of, windows
from trainer.storage.records import read_metrics
from world_models.training import world_model
from world_models.training.experience import Experience
from world_models.training.folders import Folders
from world_models.training.model_phase import ModelPhase
from world_models.training.world_model import WorldModel


def made(pieces: int = 1, **changes) -> WorldModel:
    """A model without anything that is left to chance."""
    settings = small(model_noise=0, model_dropout=0, **changes)
    return WorldModel(settings, spec_of(settings), pieces)


@pytest.mark.parametrize("pieces", [2, 3])
def test_pieces_of_a_batch_count_by_their_steps(pieces):
    drawn = windows(24, 3)
    assert float(np.ptp(drawn.valid[:, 1])) == 1.0  # some windows have fewer steps
    one, several = made(), made(pieces)
    rates = one.rates()
    whole, some = (model._contribution(drawn, rates) for model in (one, several))
    for mine, theirs in zip(whole[1], some[1], strict=True):
        assert float(mine) == pytest.approx(float(theirs), rel=1e-4)
    for mine, theirs in zip(whole[2], some[2], strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=1e-5)


def test_a_model_that_goes_on_with_smaller_batches_stays_the_newest(tmp_path):
    large, small_ = made(model_batch=8), made(model_batch=2)
    for _ in range(2):
        large.learn(windows(8, 1))
    large.save(tmp_path, 0)
    before = world_model.newest(tmp_path, print)
    assert before
    small_.restore(before, tmp_path)
    small_.learn(windows(2, 1))
    small_.save(tmp_path, 0)
    newest = world_model.newest(tmp_path, print)
    assert newest and newest.counters["updates"] == 3
    assert newest.counters["environment_frames"] == 2 * 16 + 4


def test_figures_of_a_model_that_goes_on_with_smaller_batches_follow_those_before(tmp_path):
    where, real = Folders(tmp_path), Experience([played(small())], small().algorithm.model_frames)
    where.model.mkdir()
    for batch, total in ((8, 2), (2, 3)):
        model = made(model_batch=batch, report_every_s=1000.0)
        before = world_model.newest(where.model, print)
        if before:
            model.restore(before, where.model)
        ModelPhase(model.settings, where, model, lambda text: None).run(real, total, lambda: False)
    rows = read_metrics(where.model)
    assert [row["updates"] for row in rows] == [2, 3]
    assert [row["environment_frames"] for row in rows] == [2 * 16, 2 * 16 + 4]
