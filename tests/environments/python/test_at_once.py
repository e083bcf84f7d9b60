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


class LeftAlone(gymnasium.Env):
    """Nobody acts for long before action 1 and 2, with which it ends; each step gives 10."""

    goes_on_by_itself = True
    observation_space = gymnasium.spaces.Box(0.0, 100.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)
    was = False

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.was = self.was or bool(action)
        return np.ones(1, np.float32), 10.0, action == 2, False, {}

    def was_left_alone(self):
        was, self.was = self.was, False
        return was


@pytest.mark.parametrize("processes", [0, 1])
def test_nothing_is_learned_from_what_happened_while_nobody_acted(processes):
    level = f"{__name__}:LeftAlone"
    with contextlib.closing(environments.make(level, 2, 1, env_processes=processes)) as made:
        assert made.spec.goes_on
        made.reset()
        rows = []
        for actions in ([0, 0], [1, 0], [0, 2], [0, 0], [2, 0]):
            row = made.step(np.array(actions))
            rows.append((row.reward.tolist(), row.terminated.any(), row.first.tolist()))
        assert rows == [
            ([10, 10], False, [False, False]),
            ([0, 10], False, [True, False]),  # it goes on
            ([10, 0], False, [False, True]),  # over
            ([10, 0], False, [False, True]),  # and begins anew
            ([0, 10], False, [True, False]),
        ]
        playing = [(one.raw_return, one.length) for one in made.running() or ()]
        assert playing == [(0, 0), (10, 1)] and not made.episodes()


def test_an_action_that_is_repeated_answers_nothing_if_one_of_its_steps_does_not():
    level = f"{__name__}:LeftAlone"
    with contextlib.closing(environments.make(level, 1, 1, num_action_repeats=2)) as made:
        made.reset()
        assert [made.step(np.array([one])).first[0] for one in (0, 1, 0)] == [False, True, False]


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
