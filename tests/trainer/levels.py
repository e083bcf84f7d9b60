"""Small environments to train on; ``level`` gives their names for ``--level_name``."""

import os
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from user_error import UserError

HERE = "tests.trainer.levels"
HANGS_FILE = "TEST_HANGS_FILE"


class Steps(gymnasium.Env):
    """Episodes of 7 steps with reward 1 each; observes the step's number and last action."""

    observation_space: Any = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space: Any = gymnasium.spaces.Discrete(2)
    length = 7
    reward = 1.0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.count = 0
        return self.see(0.0), {}

    def step(self, action: Any) -> Any:
        self.count += 1
        return self.see(action), self.reward, self.count == self.length, False, {}

    def see(self, action: Any) -> Any:
        """The observation."""
        return np.array([self.count / self.length, float(np.sum(action) > 0)], np.float32)


class Tens(Steps):
    """The same, but shorter and with a reward of 10 a step."""

    length = 3
    reward = 10.0


class Unhurried(Tens):
    """The same, but its steps take a while, which leaves the cores to others."""

    def step(self, action: Any) -> Any:
        time.sleep(0.0005)
        return super().step(action)


class Pictures(Steps):
    """The same as Steps, but observed as pictures."""

    observation_space = gymnasium.spaces.Box(0, 255, (40, 40, 3), np.uint8)

    def see(self, action: Any) -> Any:
        return self.np_random.integers(0, 255, (40, 40, 3), np.uint8)


class Glimpses(Pictures):
    """The same, but shorter."""

    length = 3


class TwoChoices(Steps):
    """The same, with two choices at once."""

    action_space = gymnasium.spaces.MultiDiscrete([2, 3])


class Continuous(Steps):
    """The same, with an action of two real numbers."""

    action_space = gymnasium.spaces.Box(-2, 2, (2,), np.float32)


class Far(Steps):
    """The same, but of three actions only the last leads on, and only its 15th in a row pays."""

    action_space = gymnasium.spaces.Discrete(3)
    length = 15

    def step(self, action: Any) -> Any:
        self.count = self.count + 1 if action == 2 else 0
        arrived = self.count == self.length
        return self.see(action == 2), float(arrived), arrived, False, {}


class Breaks(Steps):
    """The same, but raises an exception after a hundred steps."""

    def __init__(self) -> None:
        self.left = 100

    def step(self, action: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            self.fail()
        return super().step(action)

    def fail(self) -> None:
        raise ZeroDivisionError("the simulator fell over")


class BreaksAtOnce(Breaks):
    """The same, but at the first step."""

    def __init__(self) -> None:
        self.left = 0


class Refuses(Breaks):
    """The same, but finds a mistake of the user."""

    def fail(self) -> None:
        raise UserError("the page cannot be loaded any more")


class Leaves(Breaks):
    """The same, but tries to exit the whole process."""

    def fail(self) -> None:
        raise SystemExit(0)


class Hangs(Breaks):
    """The same, but never returns; makes the file that ``HANGS_FILE`` names when it begins."""

    def fail(self) -> None:
        Path(os.environ[HANGS_FILE]).touch()
        time.sleep(1000)


class NoNumbers(Steps):
    """The same, but from the 41st step on its reward is NaN."""

    def __init__(self) -> None:
        self.left = 40

    def step(self, action: Any) -> Any:
        self.left -= 1
        observation, reward, *rest = super().step(action)
        return observation, reward if self.left >= 0 else float("nan"), *rest


class Hiccup(Continuous):
    """The same, but only its tenth reward is NaN."""

    def __init__(self) -> None:
        self.steps = 0

    def step(self, action: Any) -> Any:
        self.steps += 1
        observation, reward, *rest = super().step(action)
        return observation, float("nan") if self.steps == 10 else reward, *rest


def level(environment: type[gymnasium.Env]) -> str:
    """The value of ``--level_name`` for an environment."""
    return f"{HERE}:{environment.__name__}"
