"""Gymnasium-Robotics, its real worlds; needs bin/setup --extra=robotics."""

import glob
import tempfile
from typing import Any

import numpy as np
import pytest

import environments
from tests.environments.playing import assert_pictures_follow, assert_same_rows, play

pytestmark = [pytest.mark.extras, pytest.mark.xdist_group("robotics")]


def test_goals_are_part_of_one_vector_and_equal_seeds_give_equal_rows(capfd):
    made = [environments.make("robotics:FetchReach-v4", 2, seed=3) for _ in range(2)]
    (rows, _), (same, _) = (play(env, num_steps=120) for env in made)
    assert_same_rows(rows, same)
    # Of a Dict, in the order of its names: where the gripper is, where it should be, the arm.
    assert rows.observation.shape == (121, 2, 3 + 3 + 10)
    assert rows.observation.dtype == np.float32
    goals = rows.observation[..., 3:6]
    moved = (goals[1:] != goals[:-1]).any(-1)
    np.testing.assert_array_equal(moved, rows.first[1:])  # a new goal an episode
    assert (goals[0, 0] != goals[0, 1]).any()
    assert set(np.unique(rows.reward)) <= {-1.0, 0.0}
    assert [one.length for one in made[0].episodes()] == [50] * 4
    assert not rows.terminated.any()
    for env in made:
        env.close()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("name", "numbers", "axes"),
    [
        ("PointMaze_UMaze-v3", 8, 2),
        ("AntMaze_UMaze-v5", 109, 8),
        ("HandReach-v3", 93, 20),
        ("AdroitHandDoor-v1", 39, 28),
        ("FrankaKitchen-v1", 93, 9),
    ],
)
def test_each_kind_of_world_can_be_played(name, numbers, axes):
    mazes = f"{tempfile.gettempdir()}/ant_maze*.xml"
    before = glob.glob(mazes)
    env = environments.make(f"robotics:{name}", 2, seed=3)
    rows, actions = play(env, num_steps=20)
    env.close()
    assert rows.observation.shape == (21, 2, numbers) and np.isfinite(rows.observation).all()
    assert actions.shape == (20, 2, axes)
    assert glob.glob(mazes) == before


def test_reaching_the_goal_ends_an_episode_where_it_is_asked_for():
    given: dict[str, Any] = {
        "env_kwargs": '{"continuing_task": false, "maze_map": [[1,1,1,1],[1,0,0,1],[1,1,1,1]]}'
    }
    env = environments.make("robotics:PointMaze_UMaze-v3", 4, seed=3, **given)
    rows, _ = play(env, num_steps=300)
    env.close()
    assert rows.terminated.any()
    assert (rows.reward[rows.terminated] == 1).all()


def test_pictures_show_the_goal_of_the_episode_that_is_played():
    env = environments.make("robotics:FetchReach-v4", 1, seed=3, render=True)
    env.reset()
    world = env._stepped.vector.envs[0].unwrapped  # type: ignore[attr-defined]
    assert_pictures_follow(env, lambda: np.add(world.goal, 0.1, out=world.goal))
    env.close()


@pytest.mark.parametrize(
    ("level_name", "view", "told"),
    [
        ("robotics:FetchReech-v4", {}, "no such world. Did you mean FetchReach-v4"),
        ("robotics:FetchReach-v1", {}, "no such world"),  # of mujoco-py
        ("robotics:FetchReach-v4", {"env_kwargs": "reward=dense"}, "--env_kwargs=reward=dense"),
    ],
)
def test_mistakes_are_told_in_one_line(level_name, view, told, one_line):
    one_line(lambda: environments.spec(level_name, **view), told)
