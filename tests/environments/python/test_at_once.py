"""Environments that go on by themselves are stepped at once, in this process or in others."""

import contextlib
import threading

import gymnasium
import numpy as np
import pytest

import environments

COUNT = 3
TOGETHER = threading.Barrier(COUNT)
LEVEL = f"{__name__}:Waiting"


class Waiting(gymnasium.Env):
    """Each step waits until the others' steps have begun, as no step one after another could."""

    goes_on_by_itself = True
    observation_space = gymnasium.spaces.Box(0.0, 100.0, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(5)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        TOGETHER.wait(20)
        self.steps = 0
        return np.array([0, 0], np.float32), {}

    def step(self, action):
        TOGETHER.wait(20)
        if action == 4:
            raise ValueError("no such thing")
        self.steps += 1
        return np.array([self.steps, action], np.float32), float(action), action == 3, False, {}


@pytest.mark.parametrize("processes", [0, 1])
def test_their_steps_and_resets_are_made_at_once(processes):
    environment = environments.make(LEVEL, COUNT, seed=1, env_processes=processes)
    try:
        assert environment.reset().first.all()
        row = environment.step(np.array([0, 1, 3]))
        np.testing.assert_array_equal(row.observation, [[1, 0], [1, 1], [1, 3]])
        assert row.terminated.tolist() == [False, False, True]
        # The third begins anew while the others are stepped.
        row = environment.step(np.array([1, 1, 1]))
        np.testing.assert_array_equal(row.observation, [[2, 1], [2, 1], [0, 0]])
        assert row.first.tolist() == [False, False, True]
        assert row.reward.tolist() == [1, 1, 0]
    finally:
        environment.close()


def test_their_repeated_actions_are_counted():
    with contextlib.closing(environments.make(LEVEL, COUNT, seed=1, num_action_repeats=2)) as made:
        made.reset()
        made.step(np.array([1, 1, 1]))
        made.step(np.array([3, 3, 3]))
        assert [(one.length, one.frames) for one in made.episodes()] == COUNT * [(2, 3)]


def test_what_one_of_them_raises_is_raised_once_the_others_have_ended():
    environment = environments.make(LEVEL, COUNT, seed=1)
    environment.reset()
    with pytest.raises(ValueError, match="no such thing"):
        environment.step(np.array([4, 1, 1]))
    environment.close()
    assert not [one for one in threading.enumerate() if one.name.startswith("environment")]
