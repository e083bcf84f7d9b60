"""Pictures for people: the same game that the agent sees, in colour."""

import contextlib
import os
import subprocess
import sys
import threading
from concurrent import futures
from types import SimpleNamespace
from typing import Any

import cv2
import gymnasium
import numpy as np
import pytest

import environments
from environments.python import workers
from environments.python.mujoco_pictures import NEEDS, MujocoPictures, opengl_disabled
from tests.environments.playing import picture
from tests.environments.test_atari import atari
from user_error import UserError


@pytest.mark.parametrize("switches", [{}, {"sticky_actions": 0.25, "max_rewardless_steps": 30}])
def test_atari_s_colours_are_those_of_the_very_frames_that_the_agent_sees(switches):
    env = atari("breakout", num_envs=2, render=True, **switches)
    actions = np.random.default_rng(0).integers(4, size=(300, 2))
    row, ends = env.reset(), 0
    for action in actions:
        for index in range(2):
            picture = env.render(index)
            assert picture.shape == (210, 160, 3)
            gray = cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)
            small = cv2.resize(gray, (84, 84), interpolation=cv2.INTER_AREA)
            np.testing.assert_allclose(small, row.observation[index, :, :, 0], atol=2)
        row = env.step(action)
        ends += row.first.sum()
    assert ends >= 2
    assert np.ptp(picture.astype(int), axis=-1).max() > 100  # it has colours


def test_pictures_follow_at_the_speed_of_the_game():
    assert atari("pong").pictures_per_second == 15
    faster = environments.make("CartPole-v1", 1, seed=0)
    assert faster.pictures_per_second == 50
    slower = environments.make("CartPole-v1", 1, seed=0, num_action_repeats=5)
    assert slower.pictures_per_second == 10


class Drawable(gymnasium.Env):
    """A user's environment that can be drawn and names no frame rate."""

    observation_space = gymnasium.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    metadata = {"render_modes": ["rgb_array"], "render_fps": None}

    def __init__(self, render_mode: str | None = None):
        self.render_mode = render_mode

    def reset(self, **options: Any) -> Any:
        return np.zeros(3, np.float32), {}

    def render(self) -> Any:
        return np.ones((4, 5, 3), np.uint8)


def test_one_s_own_environment_is_asked_to_draw_if_it_can():
    name = "tests.environments.test_pictures:Drawable"
    env = environments.make(name, 1, seed=0, render=True)
    env.reset()
    picture = env.render(0)
    assert picture is not None and picture.shape == (4, 5, 3)
    assert env.pictures_per_second == 30
    silent = environments.make(name, 1, seed=0)
    silent.reset()
    assert silent.render(0) is None


def test_mujoco_draws_the_state_that_it_is_in_or_says_what_it_needs():
    env = environments.make("InvertedPendulum-v5", 1, seed=0, render=True)
    env.reset()
    with contextlib.closing(env):
        try:
            before = env.render(0)
        except RuntimeError as error:
            assert NEEDS in str(error)
            return
        assert before is not None and before.shape == (480, 480, 3)
        for _ in range(4):
            env.step(np.array([[3.0]], np.float32))
        after = env.render(0)
        assert after is not None and (after != before).any()


def test_mujoco_draws_what_a_world_has_moved_and_coloured_in_its_model():
    env = environments.make("InvertedPendulum-v5", 1, seed=0, render=True)
    env.reset()
    world: Any = env._stepped.vector.envs[0].unwrapped  # type: ignore[attr-defined]
    with contextlib.closing(env):
        before = picture(env)
        world.model.geom_rgba[:] = (1, 0, 0, 1)
        coloured = picture(env)
        world.model.geom_size[:] *= 2
        assert (coloured != before).any() and (picture(env) != coloured).any()


WITHOUT_GUARD = """
import os, signal
import environments
from environments.python.mujoco_pictures import MujocoPictures

print("begun")
signal.signal(signal.SIGINT, lambda *_: None)
env = environments.make("InvertedPendulum-v5", 1, seed=0, render=True)
env.reset()
world = env._stepped.vector.envs[0].unwrapped
pictures = MujocoPictures(world.spec)
for _ in range(2):
    os.killpg(0, signal.SIGINT)
    try:
        print("drawn", pictures.picture(world).shape)
    except RuntimeError as error:
        print("not drawn:", " ".join(str(error).split()))
pictures.close()
env.close()
"""


def test_what_draws_for_mujoco_neither_runs_its_program_again_nor_gets_its_ctrl_c(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(WITHOUT_GUARD)
    ended = subprocess.run(
        [sys.executable, program],
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        capture_output=True,
        text=True,
        check=False,
        process_group=0,
    )
    assert ended.returncode == 0, ended.stderr
    begun, *drawings = ended.stdout.splitlines()
    assert begun == "begun" and len(drawings) == 2
    for drawing in drawings:
        assert drawing == "drawn (480, 480, 3)" or NEEDS in drawing
        assert "ended with exit code" not in drawing


MADE_ELSEWHERE = """
import os
import environments

environments.make("InvertedPendulum-v5", 1, seed=0).reset()
env = environments.make("InvertedPendulum-v5", 1, seed=0, render=True)
env.reset()
try:
    print("drawn", env.render(0).shape)
except RuntimeError as error:
    print("not drawn:", " ".join(str(error).split()))
env.close()
print(os.environ["MUJOCO_GL"])
"""


@pytest.mark.parametrize("library", ["osmesa", "egl", "nonsense"])
def test_mujoco_plays_whatever_is_to_draw_it_and_wants_that_only_to_draw(library):
    """MuJoCo loads what MUJOCO_GL names as it is imported, and fails where that is missing."""
    ended = subprocess.run(
        [sys.executable, "-c", MADE_ELSEWHERE],
        env={**os.environ, "MUJOCO_GL": library, "PYTHONPATH": os.getcwd()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    drawing, kept = ended.stdout.splitlines()
    assert drawing == "drawn (480, 480, 3)" or NEEDS in drawing
    assert drawing.startswith("not drawn") or library != "nonsense"
    assert kept == library


def test_opengl_that_two_threads_disable_is_what_was_chosen_afterwards(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    entered, may_leave = threading.Event(), threading.Event()

    def second() -> None:
        with opengl_disabled():
            entered.set()
            may_leave.wait(20)

    thread = threading.Thread(target=second)
    with opengl_disabled():
        thread.start()
        entered.wait(0.2)  # in vain, if one waits for the other
    may_leave.set()
    thread.join()
    assert os.environ["MUJOCO_GL"] == "osmesa"


def draws() -> None:
    MujocoPictures(SimpleNamespace(id="Any-v0"))


def steps() -> None:
    task: Any = SimpleNamespace(level_name="Any-v0", mine=slice(0, 1), memory=-1)
    workers._Worker(task)


@pytest.mark.parametrize("start", [draws, steps])
def test_processes_get_the_chosen_opengl_also_while_a_thread_disables_it(start, monkeypatch):
    given = list[str]()

    def started(*_: Any, **how: Any) -> None:
        given.append((how.get("env") or os.environ)["MUJOCO_GL"])
        raise OSError

    monkeypatch.setattr(subprocess, "Popen", started)
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    with futures.ThreadPoolExecutor(1) as threads:
        with opengl_disabled():
            starting = threads.submit(start)
            futures.wait([starting], 0.2)
        assert isinstance(starting.exception(20), (OSError, UserError))
    assert given == ["osmesa"]
