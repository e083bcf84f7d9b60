"""Counts the running episodes of a batch of environments."""

from typing import Any

import numpy as np

from environments.step import Episode


class Tally:
    """Returns and length of every running episode, and the episodes that are over."""

    def __init__(self, num_envs: int, level: int, frames_per_step: int = 1) -> None:
        self._level, self._frames_per_step = level, frames_per_step
        self._returns = np.zeros(num_envs, np.float64)
        self._clipped = np.zeros(num_envs, np.float64)
        self._lengths = np.zeros(num_envs, np.int64)
        self._finished: list[Episode] = []

    def add(self, reward: np.ndarray, acted: np.ndarray) -> None:
        """Adds a step's raw rewards, and an agent step where the agent's action counted."""
        self._returns += reward
        self._clipped += np.clip(reward, -1.0, 1.0)
        self._lengths += acted

    def finish(self, over: np.ndarray, frames: np.ndarray | None = None) -> None:
        """Closes the episodes that are over; `frames` [N] if steps differ in how many they last."""
        for index in np.flatnonzero(over):
            episode = self._so_far(int(index))
            if frames is not None:
                episode = episode._replace(frames=int(frames[index]))
            self._finished.append(episode)
        self._forget(over)

    def running(self) -> list[Episode]:
        """The episodes in play as far as they have come, one for each environment."""
        return [self._so_far(index) for index in range(len(self._lengths))]

    def _so_far(self, index: int) -> Episode:
        length = int(self._lengths[index])
        raw_return, clipped = float(self._returns[index]), float(self._clipped[index])
        frames = length * self._frames_per_step
        return Episode(self._level, raw_return, length, frames, index, clipped)

    def drop(self) -> None:
        """Forgets the running episodes, as a reset of all environments does."""
        self._forget(slice(None))

    def abandon(self, which: int | np.ndarray) -> None:
        """Forgets running episodes, of an index or bool [N], which will not end."""
        self._forget(which)

    def _forget(self, which: Any) -> None:
        for running in (self._returns, self._clipped, self._lengths):
            running[which] = 0

    def take(self) -> list[Episode]:
        """The episodes that were finished since the last call."""
        finished, self._finished = self._finished, []
        return finished
