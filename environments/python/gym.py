"""Gymnasium environments, your own included, as a batch."""

import numpy as np

from environments.python.mujoco_pictures import MujocoPictures, is_mujoco
from environments.python.slices import Rows, Slice
from environments.python.workers import Workers
from environments.step import EnvironmentStep, Episode, VectorEnvironment
from environments.tally import Tally


class GymnasiumEnvironment(VectorEnvironment):
    """N Gymnasium environments, which are stepped in this process or in worker processes."""

    def __init__(self, stepped: Slice | Workers, level_index: int) -> None:
        self.spec = stepped.spec
        self.num_envs = len(stepped.seeds)
        self.pictures_per_second = stepped.pictures_per_second
        self._stepped = stepped
        self._tally = Tally(self.num_envs, level_index)
        self._over = np.zeros(self.num_envs, bool)
        self._mujoco_pictures: MujocoPictures | None = None

    def reset(self) -> EnvironmentStep:
        rows = self._stepped.reset()
        self._tally.drop()
        self._over = np.zeros(self.num_envs, bool)
        return self._row(rows, ~self._over)

    def step(self, actions: np.ndarray) -> EnvironmentStep:
        rows = self._stepped.step(actions)
        first = self._over | rows.alone
        self._over = rows.terminated | rows.truncated
        self._tally.add(rows.reward, ~first)
        if self._over.any():
            self._tally.abandon(self._over & rows.alone)  # nobody has played its end
            repeats = self.spec.frames_per_step > 1
            self._tally.finish(self._over & ~rows.alone, rows.frames if repeats else None)
        return self._row(rows, first)

    def _row(self, rows: Rows, first: np.ndarray) -> EnvironmentStep:
        reward, terminated = rows.reward.astype(np.float32), rows.terminated.copy()
        reward[rows.alone], terminated[rows.alone] = 0, False
        return EnvironmentStep(rows.observation, reward, terminated, first)

    def cut(self, which: np.ndarray) -> None:
        self._stepped.cut(which)
        self._over = self._over | which
        self._tally.abandon(which)

    def running(self) -> list[Episode] | None:
        return self._tally.running() if self.spec.goes_on else None

    def episodes(self) -> list[Episode]:
        return self._tally.take()

    def render(self, index: int) -> np.ndarray | None:
        if not isinstance(self._stepped, Slice) or self._stepped.vector.render_mode is None:
            return None
        env = self._stepped.vector.envs[index]
        if is_mujoco(env):
            self._mujoco_pictures = self._mujoco_pictures or MujocoPictures(env.unwrapped.spec)
            return self._mujoco_pictures.picture(env)
        picture = env.render()
        return picture if isinstance(picture, np.ndarray) else None

    def close(self) -> None:
        self._stepped.close()
        if self._mujoco_pictures:
            self._mujoco_pictures.close()
