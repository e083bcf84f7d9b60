"""ArmReach-v0: what it observes and pays, and how it looks."""

import contextlib

import gymnasium
import numpy as np
import psutil
import pytest

import environments
from environments.names import find
from environments.python.arm import model, reach
from environments.python.mujoco_pictures import NEEDS
from user_error import EndedOutside


def test_it_is_a_level_with_a_target_that_the_tip_can_reach():
    assert find("ArmReach-v0")
    env = gymnasium.make("ArmReach-v0").unwrapped
    assert isinstance(env, reach.ArmReach)
    for seed in range(30):
        observation, _ = env.reset(seed=seed)
        assert env.observation_space.contains(observation)
        target, tip = env._target, env.data.site("tip").xpos
        assert np.linalg.norm(target - [0, 0, model.SHOULDER_HEIGHT]) <= model.REACH + 1e-6
        np.testing.assert_allclose(observation[12:15], target - tip, atol=1e-6)


def test_a_target_is_told_by_the_turn_of_the_base_that_brings_the_arm_to_it():
    """One that is behind the base is reached backwards: its distance is below 0."""
    env = reach.ArmReach()
    signs = set()
    for seed in range(30):
        turn, out, height = env.reset(seed=seed)[0][9:12]
        base = env.data.qpos[0] + turn
        assert abs(np.degrees(base)) <= 90 + 1e-3  # as far as it turns
        there = [out * np.cos(base), out * np.sin(base), height]
        np.testing.assert_allclose(there, env._target, atol=1e-6)
        signs.add(np.sign(out))
    assert signs == {-1, 1}


def test_it_pays_for_being_there_and_a_little_for_being_near():
    env = reach.ArmReach()
    env.reset(seed=1)
    env._target = env.data.site("tip").xpos.copy()
    assert env.step(np.zeros(3))[1] == 1.0
    env._target = env._target + [0.0, 0.0, 0.3]
    far = env.step(np.zeros(3))
    assert 0.0 < far[1] < 0.1 and abs(far[4]["distance"] - 0.3) < 0.02


def test_an_episode_has_a_hundred_steps_and_is_cut_off():
    env = reach.ArmReach()
    env.reset(seed=2)
    ends = [env.step(np.full(3, 0.2))[2:4] for _ in range(reach.STEPS)]
    assert ends == [(False, False)] * (reach.STEPS - 1) + [(False, True)]


def test_torques_turn_the_joints_within_their_ranges():
    env = reach.ArmReach()
    env.reset(seed=3)
    for _ in range(reach.STEPS):
        env.step(np.ones(3))
    degrees = np.degrees(env.data.qpos)
    for name, angle in zip(model.JOINTS, degrees, strict=True):
        assert angle > model.RANGES[name][1] - 5
        assert angle < model.RANGES[name][1] + 5


def test_pictures_show_the_target_of_the_episode():
    """They are drawn by another process, from the state alone."""
    environment = environments.make("ArmReach-v0", 1, seed=5, render=True)
    try:
        environment.reset()
        picture = environment.render(0)
        assert picture is not None and picture.shape == (240, 240, 3)
        red, green, blue = picture.astype(int).transpose(2, 0, 1)
        assert np.sum((red > 60) & (blue > 40) & (green < red / 3)) > 20  # magenta
    finally:
        environment.close()


@pytest.mark.parametrize("env_processes", [0, 1])
def test_the_same_task_is_seen_as_pictures_only(env_processes):
    level = "ArmReachPictures-v0"
    environment = environments.make(
        level, 1, seed=5, env_processes=env_processes, render=not env_processes
    )
    try:
        assert environment.spec.image
        seen = environment.reset().observation[0].copy()
        moved = [environment.step(np.ones([1, 3], np.float32)) for _ in range(3)][-1]
        assert seen.std() > 5 and (seen != moved.observation[0]).any()
        if not env_processes:
            picture = environment.render(0)
            assert picture is not None and picture.shape == (64, 64, 3)
    finally:
        environment.close()


@pytest.mark.parametrize("env_processes", [0, 1])
def test_without_opengl_the_pictures_are_refused_in_a_line(env_processes, monkeypatch, one_line):
    monkeypatch.setenv("MUJOCO_GL", "nonsense")
    environment = environments.make("ArmReachPictures-v0", 1, seed=5, env_processes=env_processes)
    with contextlib.closing(environment):
        one_line(environment.reset, "MuJoCo draws no pictures here", NEEDS)


def test_a_drawing_process_that_ends_later_is_no_mistake_of_the_user():
    environment = environments.make("ArmReachPictures-v0", 1, seed=5)
    with contextlib.closing(environment):
        environment.reset()
        children = psutil.Process().children()
        [drawing] = [one for one in children if "pictures of" in one.cmdline()[-1]]
        drawing.kill()
        with pytest.raises(EndedOutside, match="draws no more pictures: .*exit code -9"):
            environment.step(np.ones([1, 3], np.float32))
