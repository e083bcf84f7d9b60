"""The builds that npm has: 3DBall and GridWorld. Needs bin/setup --extra=unity."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
from gymnasium import spaces

import environments
from tests.environments.playing import play

pytestmark = [pytest.mark.extras, pytest.mark.xdist_group("unity")]
ROOT = Path(__file__).parents[3]
LONGEST = 1001  # steps of 3DBall's episodes, which its plates may then end


def builds() -> list[psutil.Process]:
    """The real ones that this process has started."""
    family = psutil.Process().children(recursive=True)
    return [one for one in family if one.name().startswith(("3dball", "gridworld"))]


def test_plates_of_3dball_drop_their_balls_at_different_times():
    env = environments.make("unity:3dball", 24, seed=1)
    rows, _ = play(env, num_steps=200)
    episodes = env.episodes()
    env.close()
    assert rows.observation.shape == (201, 24, 8) and env.spec.action_space == spaces.Discrete(4)
    assert len({one.environment for one in episodes}) == 24
    np.testing.assert_allclose(rows.reward[rows.terminated], -1)
    goes_on = ~rows.first & ~rows.terminated
    np.testing.assert_allclose(rows.reward[goes_on], 0.1, rtol=1e-5)
    assert 10 < np.mean([one.length for one in episodes]) < 60
    assert builds() == []


def balance(seen: np.ndarray) -> np.ndarray:
    """Tilts each plate against its ball's place and speed, around the axis that is further off."""
    wanted = 0.1 * (seen[:, [2, 4]] + seen[:, [5, 7]]) * [1, -1]
    missing = wanted - seen[:, :2]
    around_z = np.abs(missing[:, 0]) > np.abs(missing[:, 1])
    return np.where(around_z, missing[:, 0] > 0, 2 + (missing[:, 1] > 0))


def test_a_plate_can_hold_its_ball_until_the_builds_own_limit():
    env = environments.make("unity:3dball", 12, seed=1)
    row = env.reset()
    for _ in range(LONGEST):
        row = env.step(balance(row.observation).astype(int))
    lengths = [one.length for one in env.episodes()]
    env.close()
    assert len(lengths) >= 12 and min(lengths) >= LONGEST - 1


def test_gridworld_is_played_by_its_numbers_and_its_pictures_are_left_out(capsys):
    spec = environments.spec("unity:gridworld")
    assert "its pictures are left out" in capsys.readouterr().err
    env = environments.make("unity:gridworld", 2, seed=1, env_kwargs="numGoals=2,gridSize=4")
    rows, _ = play(env, num_steps=150)
    episodes = env.episodes()
    env.close()
    assert spec.observation_space.shape == (6,) and spec.action_space == spaces.Discrete(4)
    assert episodes and np.isin(rows.reward[rows.terminated].round(2), [1, -1, -0.01]).all()


def test_a_real_build_that_is_killed_is_started_again():
    env = environments.make("unity:3dball", 12, seed=1)
    env.reset()
    (one,) = builds()
    one.kill()
    rows = [env.step(np.zeros(12, int)).first.all() for _ in range(3)]
    env.close()
    assert rows[0] and not rows[-1]


def test_real_builds_end_with_a_training_that_is_killed(tmp_path):
    command = [sys.executable, "experiment.py", "--level_name=unity:3dball", f"--logdir={tmp_path}"]
    with subprocess.Popen(
        [*command, "--num_actors=1"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as training:
        family = psutil.Process(training.pid)
        assert training.stdout
        while not any(one.name().startswith("3dball") for one in family.children(recursive=True)):
            assert training.poll() is None, training.stdout.read()
            time.sleep(0.1)
        left = family.children(recursive=True)
        training.kill()
    assert not psutil.wait_procs(left, timeout=10)[1]
