"""Games of several bodies as rows of a batch: who has a part in them, and what each sees."""

import dataclasses
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest

import environments
from environments import Episode
from environments.names import BodiesLevel, find
from tests.environments.bodies.game import BODIES, LENGTH, Shift
from tests.environments.playing import assert_same_rows, play

SHIFT = "pettingzoo:tests.environments.bodies.game"
SPREAD = "pettingzoo:mpe2.simple_spread_v3"
PONG = "pettingzoo:atari.pong_v3"
EARLY, WHOLE, LATE, NEVER = range(4)


def test_the_prefix_is_a_reserved_word(one_line):
    assert find(PONG) == BodiesLevel("atari.pong_v3")
    one_line(lambda: find("pettingzoo:atari.pong_v3:make"), "expected pettingzoo:package.module")


def test_such_a_game_has_no_desktop(one_line):
    one_line(lambda: environments.spec(f"vnc:{PONG}"), "several bodies")


def test_rows_of_bodies_without_a_part_are_no_experience():
    env = environments.make(SHIFT, 4, seed=1)
    rows, _ = play(env, num_steps=LENGTH + 2)
    end = LENGTH + 1  # the row of the next game's start
    experience = ~rows.first[1:]
    assert env.spec.bodies == BODIES
    assert np.flatnonzero(experience[:end, EARLY]).tolist() == [0, 1]
    assert np.flatnonzero(experience[:end, WHOLE]).tolist() == list(range(LENGTH))
    assert np.flatnonzero(experience[:end, LATE]).tolist() == [3, 4, 5]
    assert not experience[:, NEVER].any()
    assert rows.reward[:end, EARLY].tolist() == [0, 1, 2, 0, 0, 0, 0]
    assert rows.reward[:end, LATE].tolist() == [0, 0, 0, 0, 4, 5, 6]
    assert np.argwhere(rows.terminated[:end]).tolist() == [[2, EARLY], [LENGTH, LATE]]
    # The next game begins for those who are there.
    assert rows.first[end].all()
    assert experience[end].tolist() == [True, True, False, False]
    assert (rows.reward[rows.first] == 0).all() and not rows.terminated[rows.first].any()


def test_bodies_see_what_is_theirs_from_their_first_row_to_their_last():
    rows, _ = play(environments.make(SHIFT, 4, seed=1), num_steps=LENGTH)
    assert rows.observation[: LENGTH + 1, WHOLE].tolist() == [[t, WHOLE] for t in range(7)]
    assert rows.observation[:3, EARLY].tolist() == [[t, EARLY] for t in range(3)]
    assert rows.observation[3:, LATE].tolist() == [[t, LATE] for t in range(3, 7)]
    assert (rows.observation[:, NEVER] == 0).all()


def test_a_picture_that_is_drawn_in_place_is_seen_anew_each_step():
    name = "pettingzoo:tests.environments.bodies.canvas"
    env = environments.make(name, 2, seed=1, width=36, height=36, tell_bodies="none")
    rows, _ = play(env, num_steps=3)
    assert env.pictures_per_second == 30
    assert rows.observation[:, 0].max(axis=(1, 2, 3)).tolist() == [0, 10, 20, 30]
    np.testing.assert_array_equal(rows.observation[:, 0], rows.observation[:, 1])


def test_each_body_has_episodes_of_its_own():
    env = environments.make(SHIFT, 8, seed=1)
    play(env, num_steps=LENGTH)
    of_game = [Episode(0, 3.0, 2, 2, EARLY, 2.0), Episode(0, 21.0, 6, 6, WHOLE, 6.0)]
    of_game += [Episode(0, 15.0, 3, 3, LATE, 3.0)]
    both = [
        one._replace(environment=one.environment + shift) for one in of_game for shift in (0, 4)
    ]
    assert sorted(env.episodes(), key=lambda one: one.environment) == sorted(
        both, key=lambda one: one.environment
    )


def test_only_a_whole_game_is_cut_and_begins_anew():
    env = environments.make(SHIFT, 8, seed=1)
    env.reset()
    env.step(np.zeros(8, int))
    env.cut(np.arange(8) < 6)
    step = env.step(np.zeros(8, int))
    assert step.first[:4].all() and not step.first[4 + WHOLE]
    while WHOLE not in (ended := {one.environment: one for one in env.episodes()}):
        assert EARLY not in ended or ended[EARLY].length == 2
        env.step(np.zeros(8, int))
    assert ended[WHOLE].length == LENGTH


def test_an_action_reaches_its_body_and_only_bodies_that_are_there():
    env: Any = environments.make(SHIFT, 8, seed=1, env_kwargs="pay_actions=true")
    env.reset()
    actions = np.array([1, 2, 0, 0, 2, 1, 0, 0])
    assert env.step(actions).reward.tolist() == [1, 2, 0, 0, 2, 1, 0, 0]
    games = [game.env for game in env._games]
    assert games[1].taken == [{"early": 2, "whole": 1}]
    assert games[0].seeds != games[1].seeds


def test_a_body_that_vanishes_is_cut_off():
    env = environments.make(SHIFT, 4, seed=1, wrappers="tests.environments.bodies.game:vanishing")
    rows, _ = play(env, num_steps=3)
    assert rows.first[:, EARLY].tolist() == [True, False, True, True]
    assert not rows.terminated[:, EARLY].any()
    assert env.episodes() == [Episode(0, 1.0, 1, 1, EARLY, 1.0)]


def test_the_last_step_of_a_body_that_is_not_shown_any_more_counts():
    env = environments.make(SHIFT, 4, seed=1, wrappers="tests.environments.bodies.game:unseen")
    rows, _ = play(env, num_steps=3)
    assert rows.first[:, EARLY].tolist() == [True, False, False, True]
    assert rows.terminated[:, EARLY].tolist() == [False, False, True, False]
    assert rows.reward[:, EARLY].tolist() == [0, 1, 2, 0]
    assert env.episodes() == [Episode(0, 3.0, 2, 2, EARLY, 2.0)]


def test_repeated_actions_stop_where_a_body_comes_or_leaves():
    env = environments.make(SHIFT, 4, seed=1, num_action_repeats=4)
    rows, _ = play(env, num_steps=3)
    assert rows.reward[:, WHOLE].tolist() == [0, 1 + 2, 3, 4 + 5 + 6]
    assert rows.reward[1, EARLY] == 3 and rows.terminated[1, EARLY]


def test_games_are_rounded_up_to_whole_ones():
    assert environments.make(SHIFT, 5, seed=1).num_envs == 8
    assert environments.make(SHIFT, 5, seed=1, whole_games=True).num_envs == 20


def test_pictures_are_drawn_of_the_game_of_a_row():
    env = environments.make(SHIFT, 8, seed=1, render=True)
    env.reset()
    env.step(np.zeros(8, np.int32))
    picture = env.render(5)
    assert picture is not None and picture.shape == (8, 8, 3) and picture[0, 0, 0] == 1
    assert env.pictures_per_second == 7


def test_a_game_need_not_say_how_often_it_is_drawn(monkeypatch):
    monkeypatch.setitem(Shift.metadata, "render_fps", None)
    assert environments.make(SHIFT, 4, seed=1).pictures_per_second == 30


@pytest.mark.parametrize("level_name", [SPREAD, PONG, SHIFT])
def test_rows_are_as_the_specification_says(level_name):
    spec = environments.spec(level_name)
    env = environments.make(level_name, spec.num_bodies, seed=3)
    assert env.spec == spec
    rows, _ = play(env, num_steps=3)
    assert rows.observation.dtype == spec.observation_space.dtype
    assert rows.observation.shape == (4, spec.num_bodies, *spec.observation_space.shape)
    again, _ = play(environments.make(level_name, spec.num_bodies, seed=3), num_steps=3)
    assert_same_rows(rows, again)


def test_rows_are_those_of_plain_pettingzoo():
    from mpe2 import simple_spread_v3

    env: Any = environments.make(SPREAD, 3, seed=3)
    rows, actions = play(env, num_steps=30)
    plain = simple_spread_v3.parallel_env()
    observation, _ = plain.reset(seed=env._seeds[0])
    for t in range(25):
        np.testing.assert_array_equal(rows.observation[t], np.stack(list(observation.values())))
        chosen = dict(zip(plain.agents, actions[t], strict=True))
        observation, reward, *_ = plain.step(chosen)
        np.testing.assert_allclose(rows.reward[t + 1], list(reward.values()), rtol=1e-6)
    assert rows.first[26].all() and not rows.terminated.any()


def test_two_player_pong_is_preprocessed_as_pong_is():
    spec = environments.spec(PONG, tell_bodies="none")
    assert spec.observation_space == gymnasium.spaces.Box(0, 255, (84, 84, 1), np.uint8)
    assert (spec.frame_stack, spec.frames_per_step, spec.action_space) == (
        4,
        4,
        gymnasium.spaces.Discrete(6),
    )
    assert spec.bodies == ("first_0", "second_0")
    everything = environments.spec(PONG, full_action_set=True).action_space
    assert everything == gymnasium.spaces.Discrete(18)
    assert environments.spec(PONG, colour=True).observation_space.shape == (84, 84, 4)


def test_frames_are_the_maximum_of_the_last_two():
    env = environments.make(PONG, 2, seed=1, noop_max=0, width=160, height=210, tell_bodies="none")
    alone = environments.make(
        PONG, 2, seed=1, noop_max=0, width=160, height=210, tell_bodies="none", frame_skip=1
    )
    four, _ = play(env, num_steps=60)
    env.spec.action_space.seed(0)
    alone.reset()
    for t in range(60):
        actions = np.array([env.spec.action_space.sample() for _ in range(2)])
        frames = [alone.step(actions).observation.copy() for _ in range(4)]
        np.testing.assert_array_equal(four.observation[t + 1], np.maximum(*frames[2:]))


def test_bodies_of_one_screen_are_told_apart():
    marked, _ = play(environments.make(PONG, 2, seed=1), num_steps=2)
    assert (marked.observation[..., 1] == np.array([0, 255])[None, :, None, None]).all()
    mirrored, _ = play(environments.make(PONG, 2, seed=1, tell_bodies="mirror"), num_steps=2)
    np.testing.assert_array_equal(marked.observation[..., :1][:, 0], mirrored.observation[:, 0])
    np.testing.assert_array_equal(mirrored.observation[:, 1], mirrored.observation[:, 0, :, ::-1])
    numbers, _ = play(environments.make(SHIFT, 4, seed=1, tell_bodies="mark"), num_steps=0)
    assert numbers.observation[0, WHOLE].tolist() == [0, 1, 0, 1, 0, 0]


@pytest.mark.parametrize(
    ("level_name", "view", "told"),
    [
        ("pettingzoo:mpe2.simple_spred_v3", {}, ["no module", "mpe2.simple_spread_v3"]),
        ("pettingzoo:no_such_package.game", {}, ["no module 'no_such_package.game'"]),
        ("pettingzoo:chess", {}, ["no module 'chess'", "such as pettingzoo:mpe2.simple_spread_v3"]),
        ("pettingzoo:classic.tictactoe_v3", {}, ["in turns"]),
        (SPREAD, {"env_kwargs": "wings=2"}, ["wings"]),
        (SPREAD, {"action_masks": True}, ["--action_masks"]),
        (SPREAD, {"tell_bodies": "mirror"}, ["--tell_bodies=mirror", "pictures"]),
        (SHIFT, {"wrappers": "tests.environments.bodies.game:mixed"}, ["early", "whole", "see"]),
        (SHIFT, {"wrappers": "tests.environments.bodies.game:nothing"}, ["possible_agents"]),
        (SHIFT, {"wrappers": "tests.environments.bodies.game:endless"}, ["Endless without close;"]),
        ("pettingzoo:tests.environments.bodies.no_game", {}, ["a object without possible_agents"]),
    ],
)
def test_what_cannot_be_played_is_told_in_one_line(one_line, level_name, view, told):
    one_line(lambda: environments.spec(level_name, **view), *told)


def test_a_missing_package_is_told_with_the_command_that_installs_it(one_line, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "mpe2"]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.startswith("pettingzoo.atari")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mpe2", None)
    one_line(lambda: environments.spec(SPREAD), "mpe2", "bin/setup --extra=pettingzoo")
    monkeypatch.setitem(sys.modules, "pettingzoo", None)
    one_line(lambda: environments.spec(PONG), "bin/setup --extra=pettingzoo")


def test_levels_with_other_bodies_cannot_share_an_agent(one_line):
    one, two = environments.spec(SHIFT), environments.spec(SPREAD)
    two = dataclasses.replace(
        two, observation_space=one.observation_space, action_space=one.action_space
    )
    one_line(lambda: environments.together([one, two]), "bodies early, whole", "agent_0")
