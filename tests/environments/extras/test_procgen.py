"""Procgen, its real games; needs bin/setup --extra=procgen."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import environments
from tests.environments.playing import assert_same_rows, play

pytestmark = [pytest.mark.extras, pytest.mark.xdist_group("procgen")]


def test_equal_seeds_give_equal_levels_and_others_give_others():
    options: dict[str, Any] = {"env_kwargs": "distribution_mode=easy", "width": 64, "height": 64}
    made = [environments.make("procgen:coinrun", 3, seed=5, **options) for _ in range(2)]
    (rows, _), (same, _) = (play(env, num_steps=300) for env in made)
    assert_same_rows(rows, same)
    assert rows.observation.shape == (301, 3, 64, 64, 3) and rows.observation.dtype == np.uint8
    assert (rows.observation[0, 0] != rows.observation[0, 1]).any()
    assert rows.terminated.sum() == len(made[0].episodes()) > 0
    starts = np.argwhere(rows.first[1:])
    assert rows.terminated[:-1][tuple(starts.T)].all()  # no action was lost between episodes
    # A reset begins levels again.
    assert (made[0].reset().observation == rows.observation[0]).all()
    for env in made:
        env.close()


def test_an_episode_that_is_too_long_is_truncated_with_a_picture_of_its_own():
    env = environments.make("procgen:maze", 1, seed=5, render=True)
    env.reset()
    into_a_wall = np.array([0])
    rows = [env.step(into_a_wall) for _ in range(500)]
    (episode,) = env.episodes()
    assert episode.length == 500 and not rows[-1].terminated.any()
    before = rows[-1].observation.copy()
    first = env.step(into_a_wall)
    assert first.first.all() and (first.observation != before).any()
    picture = env.render(0)
    assert picture is not None and picture.shape == (512, 512, 3)
    env.close()


def test_neither_opengl_nor_the_old_gym_is_imported():
    # In a process of its own: other tests import some of them.
    code = "import sys, environments; environments.spec('procgen:bigfish'); print(*sys.modules)"
    imported = subprocess.run(
        [sys.executable, "-c", code], text=True, capture_output=True, check=True
    )
    assert not {"glfw", "gym", "gym3", "moderngl", "procgen"} & set(imported.stdout.split())


@pytest.mark.parametrize(
    ("level_name", "view", "told"),
    [
        ("procgen:coinrum", {}, "no such game. Did you mean coinrun"),
        ("procgen:maze", {"env_kwargs": "distribution_mode=hardest"}, "not a valid distribution"),
    ],
)
def test_mistakes_are_told_in_one_line(level_name, view, told, one_line):
    one_line(lambda: environments.spec(level_name, **view), told)
