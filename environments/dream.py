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


class Model(NamedTuple):
    """A world model as functions."""

    predict: Callable[[np.ndarray, np.ndarray, Any], Dreamt]  # of stacks [N, H, W, F C], actions
    initial_state: Callable[[int], np.ndarray]  # [N, ...], before the first prediction
    # [count, H, W, F C]: stacks of real play to start from, drawn with this generator
    starts: Callable[[int, np.random.Generator], np.ndarray]


class DreamEnvironment(VectorEnvironment):
    """N dreams that step as one batch.

    A dream is over where the model says so, or after ``length`` steps: then it is cut, not
    terminated. The next one starts from other real play.
    """

    pictures_per_second = PICTURES_PER_SECOND

    def __init__(
        self,
        spec: EnvironmentSpec,
        model: Model,
        num_envs: int,
        length: int,
        seed: int,
        level_index: int = 0,
    ) -> None:
        self.spec = spec
        self.num_envs = num_envs
        self._model = model
        self._most = length
        self._seed = seed
        self._channels = spec.observation_space.shape[-1]
        self._tally = Tally(num_envs, level_index)

    def reset(self) -> EnvironmentStep:
        self._random = np.random.default_rng(self._seed)
        self._stacks = self._model.starts(self.num_envs, self._random)
        self._state = np.array(self._model.initial_state(self.num_envs))
        self._steps = np.zeros(self.num_envs, np.int64)
        self._over = np.zeros(self.num_envs, bool)
        self._tally.drop()
        return self._row(np.zeros(self.num_envs, np.float32), self._over, ~self._over)

    def step(self, actions: np.ndarray) -> EnvironmentStep:
        first = self._over
        dreamt = self._model.predict(self._stacks, actions, self._state)
        self._state = np.array(dreamt.state)
        older = self._stacks[..., self._channels :]
        self._stacks = np.concatenate([older, dreamt.observation], axis=-1)
        if first.any():
            self._stacks[first] = self._model.starts(int(first.sum()), self._random)
            self._state[first] = self._model.initial_state(int(first.sum()))
        self._steps = np.where(first, 0, self._steps + 1)
        reward = np.where(first, 0, dreamt.reward).astype(np.float32)
        terminated = dreamt.end & ~first
        self._over = terminated | (self._steps >= self._most)
        self._tally.add(reward, ~first)
        if self._over.any():
            self._tally.finish(self._over, self.spec.frames_per_step * self._steps)
        return self._row(reward, terminated, first)

    def _row(
        self, reward: np.ndarray, terminated: np.ndarray, first: np.ndarray
    ) -> EnvironmentStep:
        newest = np.ascontiguousarray(self._stacks[..., -self._channels :])
        return EnvironmentStep(newest, reward, terminated, first)

    def episodes(self) -> list[Episode]:
        return self._tally.take()

    def render(self, index: int) -> np.ndarray:
        """The dreamed picture, in grey if the agent sees it so."""
        picture = self._stacks[index, ..., -self._channels :]
        return picture if self._channels == 3 else cv2.cvtColor(picture, cv2.COLOR_GRAY2RGB)

    def close(self) -> None:
        """Nothing is held."""
