"""Fitness of both kinds on made-up curves, whose answers follow from the formulas by hand."""

import math

import numpy as np
import pytest

from lab.results import fitness
from lab.results.curves import Curve, curve_of, spread, window_starts
from lab.results.fitness import Level

# 0 is random, 100 is solved, usually after 1,000 frames.
LEVEL = Level(0.0, 100.0, 1000.0)


def curve(returns, frames=None, episodes=None, updates=None) -> Curve:
    returns = np.array(returns, float)
    frames = np.array(frames if frames is not None else np.arange(1, len(returns) + 1) * 100.0)
    episodes = np.array(episodes if episodes is not None else frames)
    return Curve(frames, frames / 100, returns, np.array(updates or frames), episodes)


def test_strength_is_the_highest_mean_in_units_of_the_level():
    assert fitness.session_v1(curve([0, 50, 30]), LEVEL)["strength"] == 0.5
    assert fitness.session_v1(curve([-10, -5]), LEVEL)["strength"] == 0.0
    assert fitness.session_v1(curve([120]), LEVEL)["strength"] == 1.2
    negative = Level(-200.0, 200.0, 1000.0)
    assert fitness.session_v1(curve([0.0]), negative)["strength"] == 0.5


def test_speed_counts_frames_before_the_first_window_that_is_solved():
    # An episode a frame: the window that ends at 500 began at 400.
    solved = fitness.session_v1(curve([0, 50, 80, 94, 95]), LEVEL)
    assert solved["speed"] == 1000 / 400
    assert fitness.session_v1(curve([0, 50, 94]), LEVEL)["speed"] == 0.0


@pytest.mark.parametrize("first", [100.0, 101.0, 110.0, 200.0])
def test_what_is_solved_from_the_start_has_the_frames_of_a_hundred_episodes(first):
    """Whenever the first report comes; there a window begins at frame 0, 1, 10 and 100."""
    found = fitness.session_v1(curve([100], frames=[first]), LEVEL)
    assert found["speed"] == pytest.approx(1000 / 100)
    later = fitness.session_v1(curve([0, 100], frames=[first, first + 1]), LEVEL)
    assert later["speed"] == pytest.approx(1000 / max(100, first - 99))


def test_a_session_of_fewer_episodes_counts_to_its_first_report_that_is_solved():
    few = curve([0, 100, 100], frames=[30.0, 50.0, 80.0])
    assert fitness.session_v1(few, LEVEL)["speed"] == 1000 / 50


def test_windows_begin_between_reports():
    found = window_starts(curve([1, 2], frames=[1000.0, 2000.0], episodes=[50.0, 150.0]))
    np.testing.assert_allclose(found, [0, 1000])
    found = window_starts(curve([1, 2], frames=[1000.0, 2000.0], episodes=[200.0, 300.0]))
    np.testing.assert_allclose(found, [500, 1000])


def test_a_window_has_a_hundred_episodes_of_each_level():
    row = {"environment_frames": 1000, "mean_episode_return": 1.0, "recent_episodes": 100}
    two = {"mean_episode_return/a": 1.0, "mean_episode_return/b": 1.0}
    for levels, start in (({}, 750), (two, 500)):
        found = window_starts(curve_of([row | levels | {"episodes": 400}]))
        np.testing.assert_allclose(found, [start])


def test_stability_is_the_share_of_reports_without_a_fall():
    # From the first 96 on there are four steps; one falls by more than 0.05.
    assert fitness.session_v1(curve([0, 96, 100, 90, 92, 94]), LEVEL)["stability"] == 0.75
    # A fall by exactly 0.05 is none.
    assert fitness.session_v1(curve([96, 91, 91]), LEVEL)["stability"] == 1.0
    # Still rising at its end: nothing has fallen.
    assert fitness.session_v1(curve([50, 100]), LEVEL)["stability"] == 1.0
    assert fitness.session_v1(curve([0, 4]), LEVEL)["stability"] == 0.0  # never off the ground


def test_without_an_episode_nothing_is_fit():
    empty = curve([])
    assert set(fitness.session_v4(empty, LEVEL).values()) == {None}
    figures = fitness.trial([empty, curve([50])], LEVEL, "fitness")
    assert figures["objective"] is figures["v1"] is figures["best_return"] is None
    assert figures["sessions"][1]["v1"]["strength"] == 0.5


def test_consistency_counts_sessions_that_are_no_outliers():
    alike = {"strength": 1.0, "speed": 1.0, "stability": 1.0}
    assert fitness.consistency_v1([alike] * 3) == 1.0
    other = {"strength": 0.0, "speed": 0.0, "stability": 0.0}
    assert fitness.consistency_v1([alike, alike, alike, other]) == 0.75
    near = [{"strength": 1.0 + 0.01 * i, "speed": 1.0, "stability": 1.0} for i in range(4)]
    assert fitness.consistency_v1([*near, other]) == 0.8


def test_the_fitness_of_ones_is_one():
    ones = {"strength": 1.0, "speed": 1.0, "stability": 1.0}
    assert fitness.trial_v1([ones])["fitness"] == 1.0
    half = fitness.trial_v1([ones | {"speed": 0.0, "stability": 0.0}])
    assert half["fitness"] == pytest.approx(math.sqrt(2) / 2)


def test_version_4_by_hand():
    above = np.array([1.0, 2.0, 1.0])
    found = fitness.v4_of(above, np.array([10.0, 20.0, 30.0]), np.array([1.0, 2.0, 4.0]))
    assert found["strength"] == pytest.approx(4 / 3)
    assert found["frame_efficiency"] == pytest.approx((0.1 + 0.1 + 1 / 30) / 4)
    assert found["update_efficiency"] == pytest.approx((1 + 1 + 0.25) / 4)
    assert found["stability"] == pytest.approx(1 - 1 / 4)


def test_worse_than_random_has_a_strength_only():
    found = fitness.v4_of(np.array([-1.0, -2.0]), np.array([1.0, 2.0]), np.array([1.0, 2.0]))
    assert found["strength"] == -1.5
    assert found["frame_efficiency"] is found["stability"] is None


def test_consistency_of_version_4():
    assert fitness.consistency_v4(np.array([[1.0, 2.0], [1.0, 2.0]])) == 1.0
    # Deviations of 1 at each of two points, means of 2: 1 - 2·2/4.
    assert fitness.consistency_v4(np.array([[1.0, 1.0], [3.0, 3.0]])) == 0.0
    assert fitness.consistency_v4(np.array([[-1.0]])) is None


def test_a_trial_has_both_kinds_and_the_objective():
    curves = [curve([0, 50, 100]), curve([0, 40, 90])]
    figures = fitness.trial(curves, LEVEL, "best_return")
    assert figures["objective"] == figures["best_return"] == 95.0
    assert figures["v1"]["strength"] == pytest.approx(0.95)
    assert 0 < figures["v4"]["consistency"] < 1
    assert len(figures["sessions"]) == 2
    unknown = fitness.trial(curves, Level(0.0), "strength")
    assert unknown["v1"] is None and unknown["objective"] > 0


def test_reports_with_few_episodes_count_only_if_there_are_no_others():
    def row(frames, recent, value):
        return {
            "environment_frames": frames, "wall_time": 1.0, "updates": 1, "episodes": recent,
            "recent_episodes": recent, "mean_episode_return": value,
        }  # fmt: skip

    few, full, none = row(10, 5, 99.0), row(20, 100, 50.0), row(5, 0, None)
    assert list(curve_of([none, few, full]).returns) == [50.0]
    assert list(curve_of([none, few]).returns) == [99.0]
    assert curve_of([none]).is_empty


def test_the_spread_is_taken_where_all_sessions_have_a_return():
    grid, low, mean, high = spread([curve([0, 10, 20]), curve([10, 20])])
    assert (grid[0], grid[-1]) == (100, 200)
    np.testing.assert_allclose(high - low, 10)
    np.testing.assert_allclose(mean, low + 5)
