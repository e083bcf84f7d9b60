"""dm_control, its real Control Suite; needs bin/setup --extra=dm_control."""

import os
import subprocess
import sys
from typing import Any

import mujoco
import numpy as np
import pytest

import environments
from tests.environments.playing import assert_pictures_follow, assert_same_rows, play

pytestmark = [pytest.mark.extras, pytest.mark.xdist_group("dm_control")]


def test_equal_seeds_give_equal_rows_and_a_time_limit_truncates(capfd):
    given: dict[str, Any] = {"env_kwargs": "time_limit=0.5"}
    made = [environments.make("dm_control:cartpole-swingup", 2, seed=3, **given) for _ in range(2)]
    (rows, _), (same, _) = (play(env, num_steps=120) for env in made)
    assert_same_rows(rows, same)
    assert rows.observation.shape == (121, 2, 5) and rows.observation.dtype == np.float32
    assert (rows.observation[0, 0] != rows.observation[0, 1]).any()
    assert [one.length for one in made[0].episodes()] == [50] * 4
    assert not rows.terminated.any()
    assert (made[0].reset().observation == rows.observation[0]).all()
    assert rows.reward.min() >= 0 and rows.reward.max() <= 1
    assert made[0].pictures_per_second == 100
    for env in made:
        env.close()
    assert capfd.readouterr() == ("", "")


def test_an_end_that_is_no_time_limit_terminates():
    env = environments.make("dm_control:lqr-lqr_2_1", 1, seed=3)
    env.reset()
    world = env._stepped.vector.envs[0].unwrapped  # type: ignore[attr-defined]
    no_force = np.zeros((1, 1))
    assert not env.step(no_force).terminated.any()
    world.data.qpos[:] = world.data.qvel[:] = 0  # at rest, which is what is wanted
    mujoco.mj_forward(world.model, world.data)
    assert env.step(no_force).terminated.all()
    env.close()


@pytest.mark.parametrize(
    ("name", "numbers", "axes"),
    [("dog-fetch", 232, 38), ("quadruped-walk", 78, 12), ("acrobot-swingup", 6, 1)],
)
def test_a_task_that_shows_several_parts_is_one_vector(name, numbers, axes):
    env = environments.make(f"dm_control:{name}", 1, seed=3)
    rows, actions = play(env, num_steps=10)
    env.close()
    assert rows.observation.shape == (11, 1, numbers) and np.isfinite(rows.observation).all()
    assert actions.shape == (10, 1, axes)


@pytest.mark.parametrize("backend", ["egl", None])
def test_no_opengl_is_loaded_without_pictures(backend):
    code = (
        "import sys, environments\n"
        "environments.make('dm_control:cartpole-swingup', 1, seed=3).reset()\n"
        "print(sorted({'OpenGL', 'glfw', 'labmaze', 'tensorflow'} & set(sys.modules)))\n"
    )
    given = {
        name: value for name, value in os.environ.items() if name not in ("DISPLAY", "MUJOCO_GL")
    }
    if backend:
        given["MUJOCO_GL"] = backend
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, env=given, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")


def test_pictures_show_the_target_of_the_episode_that_is_played():
    env = environments.make("dm_control:reacher-easy", 1, seed=3, render=True)
    env.reset()
    world = env._stepped.vector.envs[0].unwrapped  # type: ignore[attr-defined]
    target = world.model.geom_pos[world.model.geom("target").id]
    assert_pictures_follow(env, lambda: np.add(target, 0.05, out=target))
    env.close()


def test_workers_play_the_same_rows():
    rows = []
    for processes in (0, 2):
        env = environments.make("dm_control:walker-walk", 2, seed=3, env_processes=processes)
        rows.append(play(env, num_steps=30)[0])
        env.close()
    assert_same_rows(*rows)


@pytest.mark.parametrize(
    ("level_name", "view", "told"),
    [
        ("dm_control:cartpole-swngup", {}, "no such task. Did you mean cartpole-swingup"),
        ("dm_control:quadruped-escape", {}, "needs OpenGL"),
        ("dm_control:cartpole-swingup", {"env_kwargs": "limit=1"}, "--env_kwargs=limit=1"),
    ],
)
def test_mistakes_are_told_in_one_line(level_name, view, told, one_line):
    one_line(lambda: environments.spec(level_name, **view), told)
