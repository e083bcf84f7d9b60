"""Games whose actions last for several frames; Atari's for several players as its others are."""

from typing import Any

import numpy as np
from gymnasium.spaces import Box

Step = tuple[dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], dict[str, Any]]


class Repeats:
    """A game, with PettingZoo's parallel API, whose actions last for several of its steps.

    A step in which a body comes or leaves is the last one of its action.
    """

    def __init__(self, env: Any, repeats: int) -> None:
        self.env = env
        self._repeats = repeats

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)

    def step(self, actions: dict[str, Any]) -> Step:
        """Takes the same actions again and again; rewards add up."""
        total: dict[str, float] = {}
        there = set(self.env.agents)
        for left in reversed(range(self._repeats)):
            observation, reward, terminated, truncated, info = self.env.step(actions)
            for body, value in reward.items():
                total[body] = total.get(body, 0.0) + float(value)
            ended = any(terminated.values()) or any(truncated.values())
            changed = ended or set(self.env.agents) != there
            self.frame_played(last=changed or not left, next_to_last=left == 1)
            if changed:
                break
        return observation, total, terminated, truncated, info

    def frame_played(self, last: bool, next_to_last: bool) -> None:
        """Called after each step of the game."""


class AtariFrames(Repeats):
    """A game of PettingZoo's emulator with the standard preprocessing, all but the size of screens.

    No action for up to `noop_max` frames after a reset, each action for several frames, the maximum
    of the last two, in grey unless `colour`. `env` was made with `obs_type="ram"`.
    """

    def __init__(
        self, env: Any, repeats: int, colour: bool, noop_max: int, sticky_actions: float
    ) -> None:
        # The wrappers around it convert to turns and back, at a third of the speed.
        super().__init__(env.unwrapped, repeats)
        emulator = self.env.ale
        # Takes effect with the seed of the first reset.
        emulator.setFloat(b"repeat_action_probability", sticky_actions)
        self._screen = emulator.getScreenRGB if colour else emulator.getScreenGrayscale
        self._noop_max = noop_max
        self._random = np.random.default_rng()
        self._space = Box(0, 255, self._screen().shape, np.uint8)

    def observation_space(self, body: str) -> Box:
        """The emulator's screen, which all bodies see."""
        return self._space

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        """Starts an episode, after a random number of frames without action."""
        if seed is not None:
            self._random = np.random.default_rng(seed)
        _, info = self.env.reset(seed=seed, options=options)
        for _ in range(self._random.integers(self._noop_max + 1)):
            self.env.step({})
        return dict.fromkeys(self.env.agents, self._screen()), info

    def step(self, actions: dict[str, Any]) -> Step:
        """As `Repeats`; every body that was there sees the screen."""
        self._before: np.ndarray | None = None
        ram, *others = super().step(actions)
        return dict.fromkeys(ram, self._picture), *others  # type: ignore[return-value]

    def frame_played(self, last: bool, next_to_last: bool) -> None:
        if last:
            screen = self._screen()
            self._picture = screen if self._before is None else np.maximum(screen, self._before)
        elif next_to_last:
            self._before = self._screen()
