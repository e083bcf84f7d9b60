"""The figures of a model, of rollouts made by hand."""

import numpy as np
import pytest

from tests.world_models.catch_model import played, small, spec_of
from world_models.training import evaluating
from world_models.training.evaluating import Rollouts, figures
from world_models.training.experience import Experience
from world_models.training.world_model import WorldModel

STEPS = 12


def rollouts(rewards, real_rewards, ends=(), real_ends=(), valid=STEPS) -> Rollouts:
    def row(places, kind):
        array = np.zeros([1, STEPS], kind)
        for place, value in dict(places).items():
            array[0, place] = value
        return array

    pictures = np.zeros([1, STEPS, 2, 2, 1], np.uint8)
    known = (np.arange(STEPS) < valid)[None]
    ours, truth = (row(dict.fromkeys(one, True), bool) for one in (ends, real_ends))
    found, real = row(rewards, np.float32), row(real_rewards, np.float32)
    return Rollouts(pictures, pictures, found, real, ours, truth, known)


def test_a_reward_may_come_at_another_step():
    assert figures(rollouts({3: 1}, {5: 1}))["reward_accuracy/at_12"] == 1


def test_a_wrong_sum_is_wrong():
    assert figures(rollouts({3: 1}, {}))["reward_accuracy/at_12"] == 0


def test_rewards_after_an_end_do_not_count():
    found = figures(rollouts({3: 1, 8: 1}, {3: 1}, ends=[4], real_ends=[4], valid=5))
    assert found["reward_accuracy/to_end"] == 1 and found["end_accuracy"] == 1
    assert found["reward_accuracy/at_12"] == 1  # the episode was over before


def test_an_end_that_is_missed_is_seen():
    found = figures(rollouts({3: 1, 8: 1}, {3: 1}, real_ends=[4], valid=5))
    assert found["reward_accuracy/to_end"] == 0 and found["end_accuracy"] == 0


def test_play_that_breaks_off_is_not_counted():
    found = figures(rollouts({}, {}, valid=5))
    assert found["rollouts_at_12"] == 0 and found["reward_accuracy/at_12"] is None
    assert found["rollouts_to_end"] == 0


def test_drift_is_the_mean_difference_of_pixels():
    done = rollouts({}, {})
    moved = np.copy(done.predicted)
    moved[0, :, 0, 0, 0] = 40
    found = figures(done._replace(predicted=moved))
    assert found["drift/at_1"] == 10 and found["pixels_right/at_1"] == 0.75


def test_dreams_have_the_mean_of_rewards_and_figures_the_likeliest():
    settings = small(target_frames=1)
    model = WorldModel(settings, spec_of(settings))
    head = model.network._reward
    head.matrix.assign(np.zeros(head.matrix.shape))
    head.bias.assign(np.log([0.1, 0.6, 0.3]))
    real = Experience([played(settings)], settings.algorithm.model_frames)
    stacks = real.starts(4, 0.0, np.random.default_rng(0)).stacks
    dreamt = model.predict(stacks, np.zeros(4, np.int32), model.initial_state(4))
    assert dreamt.reward == pytest.approx([0.2] * 4, abs=1e-3)
    done = evaluating.rollouts(model, real, real.targets[:2], 3)
    assert not done.rewards.any()
    head.bias.assign(np.log([0.1, 0.2, 0.7]))
    done = evaluating.rollouts(model, real, real.targets[:2], 3)
    assert (done.rewards == 1).all()


def test_each_beginning_of_an_episode_is_judged_once():
    settings = small(target_frames=1)
    real = Experience([played(settings)], settings.algorithm.model_frames)
    targets = real.beginnings + 1
    found, begun = evaluating.evaluate(WorldModel(settings, spec_of(settings)), real, 0, 3, 64)
    assert found["rollouts"] == 64
    expected = np.isin(targets, real.targets).sum()
    assert found["from_start/rollouts"] == len(begun.valid) == expected < 64
