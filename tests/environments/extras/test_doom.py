"""Doom, in a real ViZDoom; needs bin/setup --extra=doom."""

import os
from typing import Any

import numpy as np
import psutil
import pytest

import environments
from tests.environments.playing import assert_same_rows, play

pytestmark = [pytest.mark.extras, pytest.mark.xdist_group("doom")]


@pytest.fixture(autouse=True)
def clean(tmp_path, monkeypatch):
    """A folder to run in, which stays empty, and no process that stays."""
    monkeypatch.chdir(tmp_path)
    yield
    assert os.listdir(tmp_path) == []
    assert "vizdoom" not in [child.name() for child in psutil.Process().children()]


def test_episodes_end_as_they_should_and_equal_seeds_give_equal_rows():
    made = [environments.make("doom:basic", 2, seed=3) for _ in range(2)]
    (rows, _), (same, _) = (play(env, num_steps=160) for env in made)
    assert_same_rows(rows, same)
    assert rows.observation.shape == (161, 2, 84, 84, 1) and rows.observation.dtype == np.uint8
    assert rows.observation.std() > 0 and (rows.reward < 0).any()
    episodes = made[0].episodes()
    for env in made:
        env.close()
    too_long = [one for one in episodes if one.length == 75]  # 300 tics, four an action
    assert episodes and rows.terminated.sum() == len(episodes) - len(too_long)
    assert (rows.observation[rows.terminated].std(axis=(1, 2, 3)) > 0).all()


def test_a_level_can_be_given_by_id_in_colour_and_with_other_tics():
    given: dict[str, Any] = {"colour": True, "env_kwargs": "frame_skip=10"}
    env = environments.make("doom:VizdoomDefendLine-v1", 1, seed=3, render=True, **given)
    rows, _ = play(env, num_steps=70)
    picture = env.render(0)
    env.close()
    assert rows.observation.shape[2:] == (84, 84, 3)
    assert picture is not None and picture.shape == (120, 160, 3)
    assert env.pictures_per_second == 3.5


def test_games_end_with_the_processes_that_step_them():
    env = environments.make("doom:basic", 2, seed=3, env_processes=2)
    env.reset()
    games = [one for one in psutil.Process().children(recursive=True) if one.name() == "vizdoom"]
    assert len(games) == 2
    for one in psutil.Process().children():
        one.kill()
    assert not psutil.wait_procs(games, timeout=10)[1]
    with pytest.raises(Exception, match="SIGKILL"):
        env.step(np.zeros(2, int))
    env.close()


@pytest.mark.parametrize(
    ("level_name", "view", "told"),
    [
        ("doom:basc", {}, "no such scenario. Did you mean basic"),
        ("doom:deathmatch", {}, "takes actions Dict"),
        ("doom:basic", {"env_kwargs": "max_buttons_pressed=-1"}, "--env_kwargs=max"),
    ],
)
def test_mistakes_are_told_in_one_line(level_name, view, told, one_line):
    one_line(lambda: environments.spec(level_name, **view), told)
