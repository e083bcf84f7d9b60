"""Counts the running episodes of a batch of environments."""

import numpy as np

from environments.step import Episode


class Tally:
    """Raw return and length of every running episode, and the episodes that are over."""

    def __init__(self, num_envs: int, level: int) -> None:
        self._level = level
        self._returns = np.zeros(num_envs, np.float64)
        self._lengths = np.zeros(num_envs, np.int64)
        self._finished: list[Episode] = []

    def add(self, reward: np.ndarray, acted: np.ndarray) -> None:
        """Adds a step's raw rewards, and an agent step where the agent's action counted."""
        self._returns += reward
        self._lengths += acted

    def finish(self, over: np.ndarray, frames: np.ndarray | None = None) -> None:
        """Closes the episodes that are over; `frames` [N] if they are not one per step."""
        for index in np.flatnonzero(over):
            length = int(self._lengths[index])
            spent = length if frames is None else int(frames[index])
            raw_return = float(self._returns[index])
            self._finished.append(Episode(self._level, raw_return, length, spent, int(index)))
        self._returns[over] = 0
        self._lengths[over] = 0

    def drop(self) -> None:
        """Forgets the running episodes, as a reset of all environments does."""
        self._returns[:] = 0
        self._lengths[:] = 0

    def abandon(self, index: int) -> None:
        """Forgets the running episode of one environment, which will not end."""
        self._returns[index] = 0
        self._lengths[index] = 0

    def take(self) -> list[Episode]:
        """The episodes that were finished since the last call."""
        finished, self._finished = self._finished, []
        return finished
