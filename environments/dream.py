"""A world model in place of a level: the same interface, but nothing real is played.

The model comes from above as a function, so that this module needs no network.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import cv2
import numpy as np

from environments.step import EnvironmentSpec, EnvironmentStep, Episode, VectorEnvironment
from environments.tally import Tally

PICTURES_PER_SECOND = 15.0


class Dreamt(NamedTuple):
    """What a model says comes next, in N dreams."""

    observation: np.ndarray  # [N, H, W, C]
    reward: np.ndarray  # float32 [N]
    end: np.ndarray  # bool [N], the game is over
    state: Any  # [N, ...], what the model carries along


class Starts(NamedTuple):
    """Real play to go on from."""

    stacks: np.ndarray  # [count, H, W, F C], the newest pictures, oldest first
    earlier: np.ndarray  # int [count], how many before the newest are of the same episode


class Model(NamedTuple):
    """A world model as functions."""

    predict: Callable[[np.ndarray, np.ndarray, Any], Dreamt]  # of stacks [N, H, W, F C], actions
    initial_state: Callable[[int], np.ndarray]  # [N, ...], before the first prediction
    starts: Callable[[int, np.random.Generator], Starts]  # drawn with this generator


class DreamEnvironment(VectorEnvironment):
    """N dreams that step as one batch.

    A dream is over where the model says so, or after ``length`` steps: then it is cut, not
    terminated. The next one starts from other real play. Its start within an episode is led up to
    by rows that show the pictures before, as many as the agent stacks; they are `first`, so that
    nothing is learned from them, and actions on them are ignored.
    """

    pictures_per_second = PICTURES_PER_SECOND

    def __init__(
        self,
        spec: EnvironmentSpec,
        model: Model,
        num_envs: int,
        length: int,
        seed: int,
    ) -> None:
        self.spec = spec
        self.num_envs = num_envs
        self._model = model
        self._most = length
        self._seed = seed
        self._channels = spec.observation_space.shape[-1]
        self._tally = Tally(num_envs, 0)

    def reset(self) -> EnvironmentStep:
        self._random = np.random.default_rng(self._seed)
        everywhere = np.ones(self.num_envs, bool)
        starts = self._model.starts(self.num_envs, self._random)
        self._stacks = starts.stacks
        self._state = np.array(self._model.initial_state(self.num_envs))
        self._ahead = self._rows_ahead(starts)
        self._steps = np.zeros(self.num_envs, np.int64)
        self._over = np.zeros(self.num_envs, bool)
        self._tally.drop()
        return self._row(np.zeros(self.num_envs, np.float32), self._over, everywhere)

    def step(self, actions: np.ndarray) -> EnvironmentStep:
        begins, led = self._over, self._ahead > 0
        first = begins | led
        dreamt = self._model.predict(self._stacks, actions, self._state)
        moved = np.concatenate([self._stacks[..., self._channels :], dreamt.observation], axis=-1)
        self._stacks = np.where(led[:, None, None, None], self._stacks, moved)
        carried = np.reshape(led, [-1, *[1] * (self._state.ndim - 1)])
        self._state = np.where(carried, self._state, dreamt.state)
        self._ahead = np.maximum(0, self._ahead - 1)
        if begins.any():
            starts = self._model.starts(int(begins.sum()), self._random)
            self._stacks[begins], self._ahead[begins] = starts.stacks, self._rows_ahead(starts)
            self._state[begins] = self._model.initial_state(int(begins.sum()))
        self._steps = np.where(first, 0, self._steps + 1)
        reward = np.where(first, 0, dreamt.reward).astype(np.float32)
        terminated = dreamt.end & ~first
        self._over = terminated | (self._steps >= self._most)
        self._tally.add(reward, ~first)
        if self._over.any():
            self._tally.finish(self._over, self.spec.frames_per_step * self._steps)
        return self._row(np.where(led, np.nan, reward).astype(np.float32), terminated, first)

    def _rows_ahead(self, starts: Starts) -> np.ndarray:
        """How many rows lead up to each start."""
        return np.minimum(starts.earlier, self.spec.frame_stack - 1)

    def _row(
        self, reward: np.ndarray, terminated: np.ndarray, first: np.ndarray
    ) -> EnvironmentStep:
        return EnvironmentStep(self._pictures(), reward, terminated, first)

    def _pictures(self) -> np.ndarray:
        """What each dream shows: the newest picture, or one before a start [N, H, W, C]."""
        channels = self._channels
        newest = self._stacks.shape[-1] - channels * (1 + self._ahead)
        places = newest[:, None, None, None] + np.arange(channels)
        return np.take_along_axis(self._stacks, places, axis=-1)

    def cut(self, which: np.ndarray) -> None:
        self._over = self._over | which
        self._tally.abandon(which)

    def episodes(self) -> list[Episode]:
        return self._tally.take()

    def figures(self) -> dict[str, np.ndarray]:
        """Nothing is measured where nothing real is played."""
        unknown = np.full(self.num_envs, np.nan, np.float32)
        return {one.name: unknown for one in self.spec.measures}

    def render(self, index: int) -> np.ndarray:
        """The dreamed picture, in grey if the agent sees it so."""
        picture = self._pictures()[index]
        return picture if self._channels == 3 else cv2.cvtColor(picture, cv2.COLOR_GRAY2RGB)

    def close(self) -> None:
        """Nothing is held."""
