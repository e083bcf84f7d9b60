"""Exploration where nothing is rewarded: when, how long, by which actions, what it finds."""

import numpy as np
import pytest

from tests.trainer.levels import Continuous, Far, Steps, TwoChoices, level
from tests.trainer.training import parts, small
from trainer import build
from trainer.acting.holding import Holding
from trainer.programs import local
from trainer.programs.outcome import ignore
from trainer.settings.config import Settings

CHOSEN = np.full(4, 7, np.int32)  # by a policy; nothing else is 7
RECORDED = {"log_prob": np.full(4, -0.25, np.float32), "more": np.ones(4, np.float32)}
NOTHING, REWARDS = np.zeros(4, np.float32), np.array([0, -1, 0, 2], np.float32)


def rows(holding: Holding, rewards: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The actions and the log-probabilities that are recorded, [T, B]."""
    taken = [holding.replace(reward, CHOSEN, RECORDED) for reward in rewards]
    assert all((recorded["more"] == 1).all() for _, recorded in taken)
    return (
        np.array([action for action, _ in taken]),
        np.array([recorded["log_prob"] for _, recorded in taken]),
    )


def test_environments_explore_once_they_had_no_reward_for_long_and_for_as_long():
    steps = 5 * [NOTHING] + [REWARDS] + 30 * [NOTHING]
    actions, log_probs = rows(Holding(10, 3, 4, 0), steps)
    held = actions != 7
    # Row 5 has rewards for the second and the fourth; at the 11th row without one it begins.
    assert np.flatnonzero(held[:, 0]).tolist() == [*range(10, 36)]  # nothing comes: for ever
    assert np.flatnonzero(held[:, 1]).tolist() == [*range(16, 36)]
    np.testing.assert_array_equal(held[:, [0, 1]], held[:, [2, 3]])
    np.testing.assert_allclose(log_probs, np.where(held, np.log(1 / 3), -0.25), rtol=1e-6)
    assert set(actions[held]) <= {0, 1, 2} and actions.dtype == CHOSEN.dtype


def test_a_reward_on_the_way_ends_it_only_when_its_time_is_over():
    steps = 12 * [NOTHING] + [np.ones(4, np.float32)] + 30 * [NOTHING]
    held = rows(Holding(10, 3, 4, 0), steps)[0] != 7
    for column in held.T:
        # Then the policy has as many steps to show what it can do.
        assert np.flatnonzero(column).tolist() == [*range(10, 20), *range(23, 43)]


def test_actions_are_held_for_times_of_which_one_in_n_is_n_steps_or_more():
    count = 4000
    holding = Holding(10_000, 1000, count, 1)
    reward, action = np.zeros(count), np.zeros(count, np.int32)
    recorded = {"log_prob": np.zeros(count, np.float32)}
    for _ in range(10_000):
        holding.replace(reward, action, recorded)
    taken = np.array([holding.replace(reward, action, recorded)[0] for _ in range(101)])
    lasts = (taken[1:] == taken[0]).cumprod(axis=0).sum(axis=0) + 1
    for at_least in (2, 4, 10, 30):
        assert np.mean(lasts >= at_least) == pytest.approx(1 / at_least, rel=0.25)
    assert lasts.max() > 100 and len(np.unique(taken)) == 1000


def test_the_same_seed_holds_the_same_and_others_others():
    one, again, other = (rows(Holding(3, 5, 4, seed), 60 * [NOTHING])[0] for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert (one != other).any() and (one[:, 0] != one[:, 1]).any()


def test_what_is_recorded_is_what_was_done():
    made = parts(small(level(Far), hold_actions_after=8, unroll_length=40))
    environment = build.actor_environment(made.settings, 0)
    unroll = build.actor(made.settings, environment, made.acting, 0, lambda: None).unroll()
    held = np.isclose(unroll.recorded["log_prob"][1:], np.log(1 / 3), rtol=1e-6)
    assert not held[:8].any() and held[9:17].all()
    # The environment shows the action that it took.
    shown = unroll.environment.observation[1:, :, 1]
    np.testing.assert_array_equal(shown, np.where(unroll.action[1:] == 2, 1.0, 0.0))
    made.learner.update(unroll, 1.0)


@pytest.mark.parametrize("changes", [{"hold_actions_after": 0}, {"correction": "none"}])
def test_it_can_be_turned_off(changes):
    settings = small(level(Far), **{"hold_actions_after": 8} | changes)
    assert build.algorithm(settings).holds_after == 0


@pytest.mark.parametrize(
    ("environment", "algorithm"),
    [(TwoChoices, "impala"), (Continuous, "impala"), (Steps, "ppo"), (Steps, "dqn")],
)
def test_other_actions_and_algorithms_play_as_their_policy_chooses(environment, algorithm):
    made = parts(small(level(environment), algorithm=algorithm))
    seat = build.seat(made.settings, build.actor_environment(made.settings, 0), made.acting, 0, 0)
    assert seat._holding is None


def test_what_random_steps_would_not_find_is_found_and_learned(tmp_path, monkeypatch):
    # Keeps TensorFlow's threads, which cannot change now.
    monkeypatch.setattr(local.cores, "divide", lambda **_: 1)
    settings = Settings(
        level_name=level(Far),
        hold_actions_after=100,
        total_environment_frames=40_000,
        logdir=str(tmp_path),
        precision="float32",
    )
    outcome = local.train(settings, None, ignore)
    # Within so many steps, uniform ones would find it in one run of hundreds.
    assert outcome.figures["episodes"] > 500
    assert outcome.figures["mean_episode_length"] < 20  # 15 at least
