"""Environments for the tests of worker processes."""

import subprocess
import sys
import time
from typing import Any

import gymnasium
import numpy as np

SECONDS = 600


class Quiet(gymnasium.Env):
    """Observes zero or one, and goes on forever."""

    observation_space: gymnasium.Space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    action_space: gymnasium.Space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.seen(), {}

    def step(self, action: Any) -> Any:
        return self.seen(), 0.0, False, False, {}

    def seen(self) -> np.ndarray:
        """The observation."""
        return np.zeros(1, np.float32)


class Modules(Quiet):
    """Observes whether TensorFlow or the trainer was imported."""

    def seen(self) -> np.ndarray:
        return np.array(["tensorflow" in sys.modules or "trainer" in sys.modules], np.float32)


class Unpicklable(Exception):
    """An error that cannot be made again from its arguments."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(f"{why} {number}")


class Failing(Quiet):
    """Raises at action 1."""

    def step(self, action: Any) -> Any:
        if action == 1:
            raise ZeroDivisionError("the ball has no mass")
        return super().step(action)


class FailingOddly(Quiet):
    """Raises what cannot be sent to another process."""

    def step(self, action: Any) -> Any:
        raise Unpicklable(7, "the ball is")


class Hanging(Quiet):
    """A step takes ten minutes."""

    def step(self, action: Any) -> Any:
        time.sleep(SECONDS)
        return super().step(action)


class Simulated(Quiet):
    """Starts a program of its own, and ends it when it is closed."""

    def __init__(self) -> None:
        self.simulator = subprocess.Popen(["sleep", str(SECONDS)])

    def close(self) -> None:
        self.simulator.terminate()
        self.simulator.wait()


class SimulatedFailing(Failing, Simulated):
    """Raises at action 1, and has started a program."""


class HangingAtItsEnd(Simulated):
    """Never ends it once it was played."""

    def reset(self, **options: Any) -> Any:
        self.played = True
        return super().reset(**options)

    def close(self) -> None:
        if hasattr(self, "played"):
            time.sleep(SECONDS)
        super().close()


class Exploring(Quiet):
    """Pictures, several numbers an action, random ends of both kinds."""

    observation_space = gymnasium.spaces.Box(0, 255, (6, 5, 3), np.uint8)
    action_space = gymnasium.spaces.MultiDiscrete([3, 2], start=[1, -1])

    def seen(self) -> np.ndarray:
        return self.np_random.integers(0, 256, (6, 5, 3), np.uint8)

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(np.asarray(action, np.int64))
        chance = self.np_random.random()
        return self.seen(), float(action @ [1, 10]), chance < 0.1, chance > 0.9, {}
