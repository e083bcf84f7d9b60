"""Games that several bodies play at once, as a batch: each body of each game is a row."""

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from environments.bodies.game import Game, Rows
from environments.bodies.views import BodyView
from environments.step import EnvironmentStep, Episode, VectorEnvironment
from environments.tally import Tally


class Share(NamedTuple):
    """Some bodies of a game: their numbers, and those that they have in a `BodyView`."""

    bodies: tuple[int, ...]
    in_view: tuple[int, ...]


def reset_all(games: list[Game], seeds: list[int]) -> list[Rows]:
    """Starts an episode in each game."""
    return [game.reset(seed) for game, seed in zip(games, seeds, strict=True)]


class BodiesEnvironment(VectorEnvironment):
    """Games of K bodies, stepped one after another in this thread; body b of game g is row g·K + b.

    Rows of a body that has no part in its game are `first`, so that nothing is learned from them.
    """

    def __init__(
        self,
        games: list[Game],
        seeds: list[int],
        view: BodyView,
        level_index: int,
        share: Share | None = None,
    ):
        """`seeds` are of the games; `view` is that of their bodies.

        `share` are those bodies that are rows, if others play the rest.
        """
        bodies = view.spec.bodies
        share = share or Share(tuple(range(len(bodies))), tuple(range(len(bodies))))
        named = tuple(bodies[place] for place in share.in_view)
        self.spec = dataclasses.replace(view.spec, bodies=named)
        self._count = len(named)
        self.num_envs = len(games) * self._count
        self.pictures_per_second = view.pictures_per_second
        self._games, self._seeds, self._view, self._share = games, seeds, view, share
        # The last action of an episode may have lasted for fewer frames.
        self._tally = Tally(self.num_envs, level_index, self.spec.frames_per_step)
        # A body without a part keeps its last picture: statistics of pictures see no other.
        self._observation = np.concatenate([view.blank()[list(share.in_view)]] * len(games))

    def reset(self) -> EnvironmentStep:
        return self.begin(reset_all(self._games, self._seeds))

    def step(self, actions: np.ndarray) -> EnvironmentStep:
        taken = self.actions_of_games(actions)
        return self.take([game.step(mine) for game, mine in zip(self._games, taken, strict=True)])

    def actions_of_games(self, actions: np.ndarray) -> list[list[Any]]:
        """What each game's bodies do, as far as they are rows here."""
        return self._view.taken(np.asarray(actions), self._share.in_view)

    def begin(self, rows: list[Rows]) -> EnvironmentStep:
        """The step after a reset of all games, which gave `rows`."""
        self._tally.drop()
        return self.take(rows)

    def take(self, rows: list[Rows]) -> EnvironmentStep:
        """The step that the games' `rows` are."""
        bodies, in_view = self._share
        for game, row in enumerate(rows):
            self._view.forget()
            for column, (body, place) in enumerate(zip(bodies, in_view, strict=True)):
                if body in row.seen:
                    shown = self._view.shown(row.seen[body], place)
                    self._observation[game * self._count + column] = shown
        _, *arrays = zip(*rows, strict=True)
        reward, terminated, first, over = (
            np.concatenate([one[list(bodies)] for one in array]) for array in arrays
        )
        self._tally.add(reward, ~first)
        self._tally.finish(over)
        return EnvironmentStep(self._observation, reward, terminated, first)

    def cut(self, which: np.ndarray) -> None:
        games = np.reshape(which, [-1, self._count]).all(axis=1)  # only whole ones can be reset
        for game in np.flatnonzero(games):
            self._games[game].cut()
        self._tally.abandon(np.repeat(games, self._count))

    def episodes(self) -> list[Episode]:
        return self._tally.take()

    def render(self, index: int) -> np.ndarray | None:
        picture = self._games[index // self._count].env.render()
        return picture if isinstance(picture, np.ndarray) else None

    def close(self) -> None:
        for game in self._games:
            game.env.close()
