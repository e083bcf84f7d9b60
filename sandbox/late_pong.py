"""Pong that waits for its agent and does what it says some frames late, as a desktop does.

A step is four frames, or three or five now and then. Agents see the last one, or the brighter of
the last two at each point.
"""

from typing import Any

import ale_py  # noqa: F401  (registers its games)
import gymnasium
import numpy as np

NOOP = 0
FRAMES = 4
MOST_NOOPS = 30


class LatePong(gymnasium.Wrapper):
    """For the first ``late`` frames of a step, the action of the step before lasts.

    ``uneven`` of the steps have three or five frames, as many the one as the other.
    """

    def __init__(self, late: int = 0, brighter: bool = False, uneven: float = 0.0) -> None:
        game = gymnasium.make(
            "ALE/Pong-v5",
            frameskip=1,
            repeat_action_probability=0.0,
            obs_type="grayscale",
            max_episode_steps=108_000,
        )
        super().__init__(game)
        height, width = game.observation_space.shape or ()
        self.observation_space = gymnasium.spaces.Box(0, 255, (height, width, 1), np.uint8)
        self._late, self._brighter, self._uneven, self._last = late, brighter, uneven, NOOP

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        picture, info = self.env.reset(seed=seed, options=options)
        self._last = NOOP
        for _ in range(int(self.np_random.integers(1, MOST_NOOPS))):
            picture, *_, info = self.env.step(NOOP)
        return picture[..., None], info

    def step(self, action: Any) -> Any:
        total, pictures = 0.0, []
        frames = FRAMES
        if self.np_random.random() < self._uneven:
            frames += int(self.np_random.choice([-1, 1]))
        for frame in range(frames):
            chosen = self._last if frame < self._late else action
            picture, reward, terminated, truncated, info = self.env.step(chosen)
            total += float(reward)
            pictures.append(picture)
            if terminated or truncated:
                break
        self._last = action
        seen = np.max(pictures[-2:], axis=0) if self._brighter else pictures[-1]
        return seen[..., None], total, terminated, truncated, info


gymnasium.register("LatePong-v0", "sandbox.late_pong:LatePong")
