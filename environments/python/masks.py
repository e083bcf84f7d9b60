"""Adds to each observation which actions are allowed, as ``info["action_mask"]`` says."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from user_error import UserError, in_short

KEY = "action_mask"


class MaskInObservation(gymnasium.Wrapper):
    """A vector observation, followed by a 1 for each allowed action and a 0 for each other one."""

    def __init__(self, env: gymnasium.Env, level_name: str) -> None:
        super().__init__(env)
        self._level_name = level_name
        seen, actions = env.observation_space, env.action_space
        if not (isinstance(seen, spaces.Box) and len(seen.shape) == 1):
            raise UserError(
                f"--action_masks needs observations that are numbers; {level_name} observes "
                f"{in_short(seen)}."
            )
        if not isinstance(actions, spaces.Discrete):
            raise UserError(
                f"--action_masks needs actions that can be counted (Discrete); {level_name} "
                f"takes {in_short(actions)}."
            )
        self._count = int(actions.n)
        with np.errstate(over="ignore"):
            low, high = seen.low.astype(np.float32), seen.high.astype(np.float32)
        self.observation_space = spaces.Box(
            np.append(low, np.zeros(self._count, np.float32)),
            np.append(high, np.ones(self._count, np.float32)),
            dtype=np.float32,
        )

    def reset(self, **options: Any) -> tuple[np.ndarray, dict[str, Any]]:
        observation, info = self.env.reset(**options)
        return self._with_mask(observation, info), info

    def step(self, action: Any) -> tuple[np.ndarray, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._with_mask(observation, info), reward, terminated, truncated, info

    def _with_mask(self, observation: Any, info: dict[str, Any]) -> np.ndarray:
        mask = np.asarray(info.get(KEY, ()), np.float32).ravel()
        if len(mask) != self._count:
            given = f"it has {len(mask)} entries" if KEY in info else "it is missing"
            raise UserError(
                f"--action_masks: {self._level_name} has {self._count} actions, so info['{KEY}'] "
                f"must have {self._count} entries with each reset and step, but {given}."
            )
        return np.append(np.asarray(observation, np.float32), mask)
