"""Bodies that differ in what they see and do: rows with room for all, and actions for each."""

import dataclasses
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import environments
from environments import EnvironmentSpec
from environments.realtime import measures
from tests.environments.bodies.game import LENGTH
from tests.environments.playing import assert_same_rows, play
from tests.trainer.levels import Continuous, Glimpses, Pictures, Steps, Tens, TwoChoices, level

POLE, ACROBOT, PENDULUM = "CartPole-v1", "Acrobot-v1", "Pendulum-v1"
SHIFT = "pettingzoo:tests.environments.bodies.game"
UNLIKE: dict[str, Any] = {"wrappers": "tests.environments.bodies.game:unlike"}
EARLY, WHOLE, LATE, NEVER = range(4)


def together(*names: str) -> EnvironmentSpec:
    return environments.together([environments.spec(name) for name in names])


class FourChoices(Glimpses):
    """Pictures like those of others, with more actions."""

    action_space = spaces.Discrete(4)


class Colourless(Pictures):
    """Grey pictures."""

    observation_space = spaces.Box(0, 255, (40, 40, 1), np.uint8)


HERE = "tests.environments.test_kinds"


def test_levels_that_are_alike_have_no_kinds():
    one, other = level(Steps), level(Tens)
    assert together(one, other) == together(one) == environments.spec(one)
    # As before, bounds of what is seen do not matter.
    wider = dataclasses.replace(
        environments.spec(one), observation_space=spaces.Box(-9, 9, (2,), np.float32)
    )
    assert environments.together([environments.spec(one), wider]).kinds == ()


def test_there_is_room_for_what_all_see_and_do():
    spec = together(POLE, ACROBOT, "CartPole-v0")
    assert [kind.observation_space.shape for kind in spec.kinds] == [(4,), (6,)]
    assert spec.observation_space.shape == (6 + 1,)
    assert spec.action_space == spaces.Discrete(3)
    mixed = together(POLE, level(TwoChoices), PENDULUM)
    assert mixed.action_space.shape == (2,) and mixed.action_dtype is np.float32
    choices = together(POLE, level(TwoChoices))
    assert choices.action_space == spaces.MultiDiscrete([2, 3])
    pictures = together(level(Pictures), f"{HERE}:FourChoices")
    assert pictures.observation_space == spaces.Box(0, 255, (84, 84, 3), np.uint8)
    assert pictures.action_space == spaces.Discrete(4)


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ((POLE, level(Pictures)), ["float32[4]", "uint8[40, 40, 3]", "vectors of any sizes"]),
        ((level(Pictures), f"{HERE}:Colourless"), ["uint8[40, 40, 3]", "uint8[40, 40, 1]", "one"]),
    ],
)
def test_numbers_beside_pictures_and_pictures_of_two_sizes_do_not_fit(one_line, names, told):
    specs = [environments.spec(name, width=40, height=40) for name in names]
    one_line(lambda: environments.together(specs), "cannot share an agent", *told)


def test_levels_with_other_stacks_do_not_fit(one_line):
    specs = [environments.spec(POLE), environments.spec(ACROBOT, frame_stack=2)]
    one_line(lambda: environments.together(specs), "frame stacks 1 and 2")


def test_levels_with_other_steps_or_other_clocks_do_not_fit(one_line):
    one = environments.spec(level(Steps))
    slower = dataclasses.replace(one, frames_per_step=4)
    one_line(lambda: environments.together([one, slower]), "steps of 1 and 4 frames")
    real = dataclasses.replace(one, measures=measures.MEASURES)
    one_line(lambda: environments.together([one, real]), "real time and worlds that wait")


def test_rows_are_the_level_s_own_with_zeros_and_the_number_of_the_kind():
    spec = together(POLE, ACROBOT)
    made = [environments.make(POLE, 2, seed=3) for _ in range(2)]
    wide = environments.fitted(made[1], spec)
    assert wide.spec.row_kinds == (0,) and wide.spec.level_name == POLE
    alone, _ = play(made[0], num_steps=30)
    rows, _ = play(wide, num_steps=30)
    np.testing.assert_array_equal(rows.observation[..., :4], alone.observation)
    assert (rows.observation[..., 4:] == 0).all() and rows.observation.shape[-1] == 7
    assert_same_rows(rows._replace(observation=alone.observation), alone)


def test_actions_are_narrowed_to_the_level_s_own():
    spec = together(POLE, level(TwoChoices), PENDULUM)
    pendulum = environments.fitted(environments.make(PENDULUM, 2, seed=1), spec)
    alone = environments.make(PENDULUM, 2, seed=1)
    for env in (pendulum, alone):
        env.reset()
    wide = np.array([[0.5, 9.0], [-1.5, 9.0]], np.float32)
    np.testing.assert_array_equal(pendulum.step(wide).reward, alone.step(wide[:, :1]).reward)
    pole = environments.fitted(environments.make(POLE, 2, seed=1), spec)
    pole.reset()
    right = pole.step(np.array([[1.0, 9.0], [0.0, 9.0]], np.float32)).observation[:, 1]
    assert right[0] > 0 > right[1]


def test_pictures_carry_the_number_in_their_first_byte():
    other = f"{HERE}:FourChoices"
    view: dict[str, Any] = {"width": 40, "height": 40}
    spec = environments.together(
        [environments.spec(name, **view) for name in (level(Pictures), other)]
    )
    alone = environments.make(other, 2, seed=1, **view).reset().observation
    seen = environments.fitted(environments.make(other, 2, seed=1, **view), spec)
    rows = seen.reset().observation
    assert rows[:, 0, 0, 0].tolist() == [1, 1] and (rows != alone).sum() <= 2
    assert rows.dtype == np.uint8


def test_a_level_of_no_known_kind_is_refused(one_line):
    spec = together(POLE, ACROBOT)
    one_line(
        lambda: environments.fitted(environments.make(PENDULUM, 1, 0), spec),
        "Pendulum-v1 is not for this agent",
        "float32[3] with Box(-2.0, 2.0, (1,), float32)",
        "float32[6] with Discrete(3)",
    )


def test_bodies_of_a_game_may_see_and_do_different_things():
    env: Any = environments.make(SHIFT, 8, seed=1, **UNLIKE)
    assert env.spec.row_kinds == (0, 1, 0, 1)
    assert [kind.action_space.n for kind in env.spec.kinds] == [2, 5]
    rows, _ = play(env, num_steps=LENGTH)
    assert rows.observation[:, WHOLE].tolist() == [[t, WHOLE, 5, 1] for t in range(LENGTH + 1)]
    assert rows.observation[0, EARLY].tolist() == [0, EARLY, 0, 0]
    # Those who are not there yet are of their kind, too.
    assert rows.observation[0, LATE].tolist() == [0, 0, 0, 0]
    assert rows.observation[:, NEVER].tolist() == [[0, 0, 0, 1]] * (LENGTH + 1)


def test_each_body_takes_the_actions_that_it_has():
    env: Any = environments.make(SHIFT, 8, seed=1, **UNLIKE)
    env.reset()
    env.step(np.array([1, 4, 0, 0, 0, 3, 0, 0]))
    taken = [game.env.taken[0] for game in env._games]
    assert taken == [{"early": 8, "whole": 11}, {"early": 7, "whole": 10}]


def test_a_game_of_unlike_bodies_beside_another_kind_of_game():
    """Rows that have been made wide within a level are made wider for several."""
    unlike = environments.spec(SHIFT, **UNLIKE)
    long = dataclasses.replace(
        environments.spec(SHIFT), observation_space=spaces.Box(0, 9, (7,), np.float32)
    )
    spec = environments.together([long, unlike])
    assert len(spec.kinds) == 3
    env = environments.fitted(environments.make(SHIFT, 4, seed=1, **UNLIKE), spec)
    assert env.spec.row_kinds == (1, 2, 1, 2)
    assert env.reset().observation[:2].tolist() == [
        [0, EARLY, 0, 0, 0, 0, 0, 1],
        [0, WHOLE, 5, 0, 0, 0, 0, 2],
    ]


def test_random_actions_are_ones_that_each_body_has():
    spec = together(POLE, level(Continuous), level(TwoChoices))
    drawn = environments.RandomActions(spec, 3).draw(300, [0, 1, 2])
    assert drawn.shape == (300, 2) and drawn.dtype == np.float32
    pole, real, choices = (drawn[kind::3] for kind in range(3))
    assert set(pole[:, 0]) == {0, 1} and not pole[:, 1].any()
    assert np.ptp(real, axis=0).min() > 3 and abs(real).max() <= 2
    assert set(choices[:, 0]) == {0, 1} and set(choices[:, 1]) == {0, 1, 2}
    # Where all are alike, they are those of the level's space.
    space = gymnasium.spaces.Discrete(2)
    space.seed(5)
    alike = environments.RandomActions(environments.spec(POLE), 5).draw(20)
    assert alike.tolist() == [space.sample() for _ in range(20)]


@pytest.mark.parametrize(
    ("name", "sizes"),
    [("mpe2.simple_tag_v3", [16, 14]), ("mpe2.simple_speaker_listener_v4", [3, 11])],
)
def test_games_of_pettingzoo_whose_bodies_differ(name, sizes):
    pytest.importorskip("mpe2")
    env = environments.make(f"pettingzoo:{name}", 4, seed=1)
    assert [kind.observation_space.shape[0] for kind in env.spec.kinds] == sizes
    actions = environments.RandomActions(env.spec, 1)
    env.reset()
    for _ in range(30):
        step = env.step(actions.draw(env.num_envs))
    assert np.isfinite(step.observation).all() and len(env.episodes()) == env.num_envs
