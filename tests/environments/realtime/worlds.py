"""Levels for tests of worlds in real time."""

import os
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

DARK_FRAMES = 3
SIZE = 40


class Reflex(gymnasium.Env):
    """Dark for a while, then bright until the key comes: how long that takes is what matters."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}
    observation_space: Any = spaces.Box(0, 255, (SIZE, 2 * SIZE, 3), np.uint8)
    action_space: Any = spaces.Discrete(2)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._frames = 0
        return self.render(), {}

    def step(self, action: Any) -> Any:
        answered = bool(action) and self._is_bright()
        self._frames += 1
        return self.render(), float(answered), answered, False, {}

    def render(self) -> Any:
        return np.full([SIZE, 2 * SIZE, 3], 255 * self._is_bright(), np.uint8)

    def _is_bright(self) -> bool:
        return self._frames >= DARK_FRAMES


class Rewarding(Reflex):
    """Gives 1, 2, 3 and so on, a number a frame; an episode has ten."""

    def step(self, action: Any) -> Any:
        self._frames += 1
        over = self._frames == 10
        return self.render(), float(self._frames), over, False, {}


class Echo(Reflex):
    """Gives its action; an episode has ten."""

    def step(self, action: Any) -> Any:
        self._frames += 1
        return self.render(), float(action), self._frames == 10, False, {}


class Slow(Reflex):
    """Takes longer to begin than anybody waits."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        time.sleep(600)


class Stuck(Reflex):
    """Hangs in its first step, and says so with a file."""

    def step(self, action: Any) -> Any:
        Path(os.environ["TMPDIR"], "stuck").touch()
        time.sleep(600)
