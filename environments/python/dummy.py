"""``dummy:OBS-FPS``: a level of given size and speed, in which there is nothing to learn."""

import re
import time
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from user_error import UserError

_NAME = re.compile(r"(?P<size>\d+(x\d+x\d+)?)-(?P<fps>\d+(\.\d+)?)(?P<wait>-wait)?")
ACTIONS = 4
EPISODE_STEPS = 1000
REWARD_EVERY = 10  # steps; without any, targets would have no scale
PICTURES = 8  # drawn once and shown in turn


@dataclass(frozen=True)
class DummyLevel:
    """`dummy:OBS-FPS`: noise of a size, at a speed."""

    shape: tuple[int, ...]  # bytes [H, W, C], or float32 [D]
    steps_per_second: float
    waits: bool = False  # a step takes time, but no processor


def parse(text: str) -> DummyLevel:
    """The level of what follows the colon."""
    given = _NAME.fullmatch(text)
    shape = tuple(int(size) for size in given["size"].split("x")) if given else ()
    fps = float(given["fps"]) if given else 0.0
    in_bytes = len(shape) == 1
    if not given or min(*shape, fps) <= 0 or (in_bytes and shape[0] % 4):
        raise UserError(
            f"--level_name: dummy:{text}: expected dummy:OBS-FPS. OBS is HEIGHTxWIDTHxCHANNELS of "
            "a picture, or bytes in fours, of numbers. FPS is steps a second of one environment, "
            "with -wait behind it if they take no processor. Such as dummy:84x84x4-1000, "
            "dummy:16-100000 or dummy:84x84x1-100-wait."
        )
    return DummyLevel((shape[0] // 4,) if in_bytes else shape, fps, bool(given["wait"]))


class Dummy(gymnasium.Env):
    """Noise of a size. Each step takes 1/FPS s, of this thread's processor or of the clock."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}
    action_space: Any = spaces.Discrete(ACTIONS)

    def __init__(self, level: DummyLevel, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self._seconds, self._waits = 1.0 / level.steps_per_second, level.waits
        random = np.random.default_rng(0)
        if len(level.shape) == 3:
            self.observation_space: Any = spaces.Box(0, 255, level.shape, np.uint8)
            self._shown: Any = random.integers(0, 256, (PICTURES, *level.shape), np.uint8)
        else:
            self.observation_space = spaces.Box(-1.0, 1.0, level.shape, np.float32)
            self._shown = random.uniform(-1.0, 1.0, (PICTURES, *level.shape)).astype(np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._steps = 0
        return self._shown[0], {}

    def step(self, action: Any) -> Any:
        if self._waits:
            time.sleep(self._seconds)
        else:
            work(self._seconds)
        self._steps += 1
        reward = float(self._steps % REWARD_EVERY == 0)
        over = self._steps == EPISODE_STEPS
        return self._shown[self._steps % PICTURES], reward, False, over, {}

    def render(self) -> Any:
        shown = self._shown[self._steps % PICTURES]
        return np.repeat(shown[:, :, :1], 3, axis=2) if shown.ndim == 3 else None


def work(seconds: float) -> None:
    """Keeps the processor busy, for so much of its own time: that of other threads is not counted.

    Below some microseconds a look at the clock takes longer than that.
    """
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass
