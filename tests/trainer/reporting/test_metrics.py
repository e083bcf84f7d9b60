"""The meter counts what was played and learned, and reports it as figures."""

import json
import time

import numpy as np
import pytest

from algorithms.impala import Impala
from algorithms.trajectory import Episodes
from tests.trainer.levels import Steps, Tens, level
from tests.trainer.training import block, parts, small
from trainer.reporting.metrics import NEWEST_LAGS, RECENT_EPISODES, Meter, ended_episodes

ONE = ["A-v0"]


FIGURES = ("total_loss", "entropy", "gradient_norm")


def of_update(**changes: float) -> dict[str, float]:
    return dict.fromkeys(FIGURES, 1.0) | changes


def test_only_fresh_unrolls_count_as_frames_and_steps():
    meter = Meter(ONE, 4, {}, FIGURES)
    meter.add_update(of_update(), False, 0.0, fresh_steps=160)
    meter.add_update(of_update(), False, 0.0, fresh_steps=160)
    assert (meter.environment_frames, meter.agent_steps) == (1280, 320)


def test_the_lag_is_the_median_of_the_newest():
    meter = Meter(ONE, 4, {}, FIGURES)
    for lag in [9.0] * 2 * NEWEST_LAGS + [1.0] * (NEWEST_LAGS - 1):
        meter.add_update(of_update(), False, lag, fresh_steps=1)
    assert meter.report({})["policy_lag"] == 1.0


def test_episodes_of_real_unrolls_are_counted_once_with_their_raw_return():
    meter = Meter([level(Tens)], 1, {}, FIGURES)
    made = parts(small(level(Tens), envs_per_actor=2, unroll_length=4))
    actor = made.actor()
    for _ in range(5):  # 20 steps; an episode takes 3, and a reset one more
        meter.add_episodes(ended_episodes(actor.unroll()))
    assert meter.episodes == 2 * 5
    assert meter.mean_episode_return == 30.0
    assert meter.report({})["mean_episode_length"] == 3.0


def test_levels_are_reported_separately_and_the_mean_is_over_levels():
    settings = small(f"{level(Steps)},{level(Tens)}", num_actors=2)
    meter = Meter(settings.level.levels, 1, {}, FIGURES)
    made = parts(settings)
    actors = [made.actor(index) for index in (0, 1)]
    for _ in range(4):
        meter.add_episodes(ended_episodes(actors[1].unroll()))
    assert meter.report({})[f"mean_episode_return/{level(Steps)}"] is None
    assert (meter.mean_episode_return, meter.recent_episodes) == (30.0, 0)
    assert meter.unplayed() == []  # it may only take longer
    while meter.episodes < RECENT_EPISODES:
        meter.add_episodes(ended_episodes(actors[1].unroll()))
    assert meter.unplayed() == [level(Steps)]
    for _ in range(4):
        meter.add_episodes(ended_episodes(actors[0].unroll()))
    figures = meter.report({})
    assert figures[f"mean_episode_return/{level(Steps)}"] == 7.0
    assert figures[f"mean_episode_return/{level(Tens)}"] == 30.0
    # Even though more episodes of the shorter level have ended.
    assert figures["mean_episode_return"] == (7.0 + 30.0) / 2
    assert figures["mean_episode_length"] == (7.0 + 3.0) / 2
    resumed = Meter(settings.level.levels, 1, meter.counters(), FIGURES).report({})
    assert resumed["mean_episode_length"] == (7.0 + 3.0) / 2
    assert meter.unplayed() == []


def test_a_checkpoint_of_an_earlier_version_has_all_lengths_in_one_list():
    meter = Meter(ONE, 1, {"recent_returns": [[1.0, 2.0]], "recent_lengths": [3, 5]})
    assert meter.report({})["mean_episode_length"] == 4.0


def test_the_mean_return_is_that_of_the_last_episodes():
    meter = Meter(ONE, 1, {}, FIGURES)
    played = block(small(level(Steps)))
    for index in range(RECENT_EPISODES + 50):
        ended = np.zeros_like(played.episodes.raw_return)
        length = np.zeros_like(played.episodes.length)
        ended[1, 0], length[1, 0] = index, 1
        meter.add_episodes(ended_episodes(played._replace(episodes=Episodes(ended, length))))
    assert meter.episodes == RECENT_EPISODES + 50
    assert meter.mean_episode_return == np.mean(np.arange(50, RECENT_EPISODES + 50))


@pytest.mark.alone
def test_a_report_covers_the_time_since_the_previous_one():
    started = time.monotonic()
    meter = Meter(ONE, 4, {}, FIGURES)
    meter.add_update(of_update(total_loss=1.0), False, 1.0, 100)
    time.sleep(1.0)
    first = meter.report({"learner_wait_share": 0.1, "actor_wait_share": 0.0})
    between = time.monotonic()
    assert first["total_loss"] == 1.0
    assert first["learner_wait_share"] == pytest.approx(0.1 / (between - started), rel=0.1)
    assert first["frames_per_second"] == pytest.approx(400 / (between - started), rel=0.1)
    assert first["steps_per_second"] == pytest.approx(first["frames_per_second"] / 4)
    for lag, loss in ((3.0, 2.0), (5.0, 4.0), (90.0, 6.0)):
        meter.add_update(of_update(total_loss=loss), False, lag, 100)
    time.sleep(1.0)
    second = meter.report({"learner_wait_share": 0.2, "actor_wait_share": 0.0})
    ended = time.monotonic()
    assert (second["total_loss"], second["policy_lag"]) == (4.0, 5.0)  # mean, and median
    assert second["learner_wait_share"] == pytest.approx(0.1 / (ended - between), rel=0.1)
    assert second["updates_in_report"] == 3
    empty = meter.report({"learner_wait_share": 0.2, "actor_wait_share": 0.0})
    assert (empty["total_loss"], empty["policy_lag"], empty["frames_per_second"]) == (None, None, 0)
    whole = meter.whole_run({"learner_wait_share": 0.2})
    assert whole["frames_per_second"] == pytest.approx(1600 / (ended - started), rel=0.1)


def test_skipped_updates_are_counted_and_do_not_affect_means():
    meter = Meter(ONE, 1, {}, FIGURES)
    for skipped, loss, in_a_row in ((1, np.nan, 1), (1, np.inf, 2), (0, 3.0, 0), (1, np.nan, 1)):
        meter.add_update(of_update(total_loss=loss), bool(skipped), 0.0, 1)
        assert meter.skipped_in_a_row == in_a_row
    figures = meter.report({})
    assert (figures["skipped_updates"], figures["total_loss"]) == (3, 3.0)
    assert all(figure is None or np.isfinite(figure) for figure in figures.values())


def test_all_the_skipped_updates_of_a_batch_count_once_in_a_row():
    meter = Meter(ONE, 1, {}, FIGURES)
    for skipped, begins, in_a_row in ((1, 1, 1), (1, 0, 1), (1, 1, 2), (0, 0, 0), (1, 0, 0)):
        meter.add_update(of_update(), bool(skipped), 0.0, 1, bool(begins))
        assert meter.skipped_in_a_row == in_a_row
    assert meter.skipped_updates == 4


def test_counters_continue_from_a_checkpoint():
    meter = Meter([level(Tens)], 4, {}, FIGURES)
    made = parts(small(level(Tens)))
    actor = made.actor()
    for _ in range(5):
        meter.add_episodes(ended_episodes(actor.unroll()))
        meter.add_update(of_update(), True, 0.0, 20)
    kept = json.loads(json.dumps(meter.counters()))
    other = Meter([level(Tens)], 4, kept, FIGURES)
    names = ("environment_frames", "agent_steps", "episodes", "skipped_updates", "recent_episodes")
    for name in names:
        assert getattr(other, name) == getattr(meter, name) > 0
    assert other.mean_episode_return == meter.mean_episode_return
    assert kept["wall_time"] < other.wall_time < kept["wall_time"] + 5
    assert other.report({})["frames_per_second"] == 0  # earlier frames do not count


def test_updates_return_samples_for_histograms():
    made = parts(small(level(Steps)))
    drawn = made.learner.update(made.actor().unroll(), 1.0).samples
    assert set(drawn) == set(Impala.samples)
    assert all(values.shape == (6, 3) for values in drawn.values())
