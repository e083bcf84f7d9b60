"""A game of two bodies, which see one picture; it is drawn into the same array again and again."""

from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete


class Canvas:
    """Of what PettingZoo's games have, only what is needed."""

    possible_agents = ["left", "right"]

    def __init__(self) -> None:
        self.picture = np.zeros([40, 40, 3], np.uint8)

    def observation_space(self, body: str) -> Box:
        return Box(0, 255, self.picture.shape, np.uint8)

    def action_space(self, body: str) -> Discrete:
        return Discrete(2)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.agents = list(self.possible_agents)
        self.picture[:] = 0
        return dict.fromkeys(self.agents, self.picture), {}

    def step(self, actions: dict[str, Any]) -> Any:
        self.picture += 10
        reward, no = dict.fromkeys(self.agents, 0.0), dict.fromkeys(self.agents, False)
        return dict.fromkeys(self.agents, self.picture), reward, no, no, {}

    def close(self) -> None:
        pass


def parallel_env() -> Canvas:
    return Canvas()
