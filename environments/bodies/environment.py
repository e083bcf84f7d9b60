"""Games that several bodies play at once, as a batch: each body of each game is a row."""

import numpy as np

from environments.bodies.game import Game, Rows
from environments.bodies.views import BodyView
from environments.step import EnvironmentStep, Episode, VectorEnvironment
from environments.tally import Tally


class BodiesEnvironment(VectorEnvironment):
    """Games of K bodies, stepped one after another in this thread; body b of game g is row g·K + b.

    Rows of a body that has no part in its game are `first`, so that nothing is learned from them.
    """

    def __init__(self, games: list[Game], seeds: list[int], view: BodyView, level_index: int):
        """`seeds` are of the games; `view` is that of their bodies."""
        self.spec = view.spec
        self._count = len(self.spec.bodies)
        self.num_envs = len(games) * self._count
        self.pictures_per_second = view.pictures_per_second
        self._games, self._seeds, self._view = games, seeds, view
        self._tally = Tally(self.num_envs, level_index)
        # A body without a part keeps its last picture: statistics of pictures see no other.
        self._observation = np.concatenate([view.blank()] * len(games))
        self._lengths = np.zeros(self.num_envs, np.int64)  # of the running episodes

    def reset(self) -> EnvironmentStep:
        self._tally.drop()
        self._lengths[:] = 0
        rows = [game.reset(seed) for game, seed in zip(self._games, self._seeds, strict=True)]
        return self._step(rows)

    def step(self, actions: np.ndarray) -> EnvironmentStep:
        taken = self._view.taken(np.asarray(actions))
        return self._step([game.step(mine) for game, mine in zip(self._games, taken, strict=True)])

    def _step(self, rows: list[Rows]) -> EnvironmentStep:
        for game, row in enumerate(rows):
            for body, seen in row.seen.items():
                self._observation[game * self._count + body] = self._view.shown(seen, body)
        _, *arrays = zip(*rows, strict=True)
        reward, terminated, first, over = map(np.concatenate, arrays)
        self._lengths += ~first
        self._tally.add(reward, ~first)
        # The last action of an episode may have lasted for fewer frames.
        self._tally.finish(over, self._lengths * self.spec.frames_per_step)
        self._lengths[over] = 0
        return EnvironmentStep(self._observation, reward, terminated, first)

    def episodes(self) -> list[Episode]:
        return self._tally.take()

    def render(self, index: int) -> np.ndarray | None:
        picture = self._games[index // self._count].env.render()
        return picture if isinstance(picture, np.ndarray) else None

    def close(self) -> None:
        for game in self._games:
            game.env.close()
