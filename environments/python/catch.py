"""``Catch-v0``: a ball falls, a paddle catches it; pictures that are learned in a minute."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

SIZE = 10  # pixels a side
DRAWN_PIXEL = 24  # pixels of a drawing
PADDLE_BRIGHTNESS, BALL_BRIGHTNESS = 160, 255


class Catch(gymnasium.Env):
    """A ball falls from a random column, a row a step; the paddle moves left, stays or moves right.

    After nine steps the ball is in the paddle's row: the reward is 1 if the paddle is below it, and
    otherwise -1. Other steps have none.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}
    observation_space: Any = spaces.Box(0, 255, (SIZE, SIZE), np.uint8)
    action_space: Any = spaces.Discrete(3)
    keys_of_actions = (("left",), (), ("right",))  # in a window

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._row = 0
        self._column, self._paddle = self.np_random.integers(SIZE, size=2)
        return self._picture(), {}

    def step(self, action: Any) -> Any:
        self._row += 1
        self._paddle = np.clip(self._paddle + action - 1, 0, SIZE - 1)
        over = self._row == SIZE - 1
        reward = (1.0 if self._paddle == self._column else -1.0) if over else 0.0
        return self._picture(), reward, over, False, {}

    def render(self) -> Any:
        drawn = np.kron(self._picture(), np.ones([DRAWN_PIXEL, DRAWN_PIXEL], np.uint8))
        return np.repeat(drawn[:, :, None], 3, axis=2)

    def _picture(self) -> np.ndarray:
        picture = np.zeros([SIZE, SIZE], np.uint8)
        picture[SIZE - 1, self._paddle] = PADDLE_BRIGHTNESS
        picture[self._row, self._column] = BALL_BRIGHTNESS
        return picture
