"""Levels that are broken in random play, too."""

import atexit
import sys
import time
from typing import Any

import gymnasium
import numpy as np


class Fails(gymnasium.Env):
    """Raises at its first step, with ``broken``; otherwise an episode is a step."""

    observation_space = gymnasium.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, broken: bool = False):
        self._broken = broken

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(3, np.float32), {}

    def step(self, action: Any) -> Any:
        if self._broken:
            raise RuntimeError("the simulator has lost its licence")
        return np.zeros(3, np.float32), 1.0, True, False, {}


class Prints(Fails):
    """Prints as it is played, and at its end."""

    def step(self, action: Any) -> Any:
        print("a step")
        atexit.register(print, "bye")
        return super().step(action)


class Leaves(Fails):
    """Ends its process in its first step, as if all were well."""

    def step(self, action: Any) -> Any:
        sys.exit(0)


class Unknown(Fails):
    """Its rewards are no numbers."""

    def step(self, action: Any) -> Any:
        observation, _, *ended = super().step(action)
        return observation, float("nan"), *ended


class Hangs(Fails):
    """Its first step does not end, with ``broken``."""

    def __init__(self, broken: bool = True):
        super().__init__(broken)

    def step(self, action: Any) -> Any:
        if self._broken:
            time.sleep(600)
        return super().step(action)
