"""Plays an environment at random and keeps what it said."""

from collections.abc import Callable

import numpy as np
import pytest

from environments import EnvironmentStep, RandomActions, VectorEnvironment
from environments.python.mujoco_pictures import NEEDS


def play(
    env: VectorEnvironment, num_steps: int, seed: int = 0
) -> tuple[EnvironmentStep, np.ndarray]:
    """The rows that random actions lead to, one more than there are actions, and the actions."""
    random = RandomActions(env.spec, seed)
    rows, actions = [copied(env.reset())], []
    for _ in range(num_steps):
        actions.append(random.draw(env.num_envs))
        rows.append(copied(env.step(actions[-1])))
    return EnvironmentStep(*map(np.array, zip(*rows, strict=True))), np.array(actions)


def copied(row: EnvironmentStep) -> EnvironmentStep:
    """The row, safe from the next step."""
    return EnvironmentStep(*(array.copy() for array in row))


def picture(env: VectorEnvironment) -> np.ndarray:
    """The first environment's picture; skips the test where nothing is there that draws it."""
    try:
        drawn = env.render(0)
    except RuntimeError as error:
        assert NEEDS in str(error)
        pytest.skip(NEEDS)
    assert drawn is not None
    return drawn


def assert_pictures_follow(env: VectorEnvironment, change: Callable[[], None]) -> None:
    """Asserts that a picture is the same until what it shows is changed."""
    before = picture(env)
    assert before.shape == (480, 480, 3) and before.std() > 0
    np.testing.assert_array_equal(picture(env), before)
    change()
    assert (picture(env) != before).any()


def assert_same_rows(one: EnvironmentStep, two: EnvironmentStep) -> None:
    """Asserts that two streams are equal to the last bit."""
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)
