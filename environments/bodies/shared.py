"""Games in which several agents play: each sees and moves only the bodies that are its own."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from environments.bodies.environment import BodiesEnvironment, Share, reset_all
from environments.bodies.game import Game
from environments.bodies.views import BodyView
from environments.shared import SharedEnvironment
from environments.step import EnvironmentStep
from environments.view import View


class SharedGames(SharedEnvironment):
    """Games of several bodies, stepped one after another in this thread."""

    def __init__(
        self,
        games: list[Game],
        seeds: list[int],
        views: Sequence[tuple[BodyView, Share]],
        level_index: int,
    ):
        """`views` are what each agent sees, and of which bodies; together they are all bodies."""
        self._games, self._seeds = games, seeds
        self._parts = [
            BodiesEnvironment(games, seeds, view, level_index, share) for view, share in views
        ]
        self.parts = self._parts
        # Where each body of a game is in the actions of all agents, one after another.
        order = [body for _, share in views for body in share.bodies]
        self._place = np.argsort(order)

    def reset(self) -> list[EnvironmentStep]:
        rows = reset_all(self._games, self._seeds)
        return [part.begin(rows) for part in self._parts]

    def step(self, actions: Sequence[np.ndarray]) -> list[EnvironmentStep]:
        taken = [
            part.actions_of_games(mine) for part, mine in zip(self._parts, actions, strict=True)
        ]
        rows = []
        for index, game in enumerate(self._games):
            of_agents = [action for part in taken for action in part[index]]
            rows.append(game.step([of_agents[place] for place in self._place]))
        return [part.take(rows) for part in self._parts]

    def cut(self, which: np.ndarray) -> None:
        for part in self._parts:
            part.cut(np.repeat(which, part.spec.num_bodies))

    def close(self) -> None:
        for game in self._games:
            game.env.close()


def views_of(
    env: Any, level_name: str, view: View, atari: bool, shares: Sequence[Sequence[int]]
) -> list[tuple[BodyView, Share]]:
    """What each agent sees of a game.

    Where all bodies are alike, as an agent would that plays all of them, so that it can be played
    with the others' bodies, too.
    """
    spaces = [(env.observation_space(body), env.action_space(body)) for body in env.possible_agents]
    if all(one == spaces[0] for one in spaces):
        whole = BodyView(env, level_name, view, atari)
        return [(whole, Share(tuple(share), tuple(share))) for share in shares]
    found = []
    for share in shares:
        named = [env.possible_agents[body] for body in share]
        own = BodyView(_Part(env, named), level_name, view, atari)
        found.append((own, Share(tuple(share), tuple(range(len(share))))))
    return found


class _Part:
    """A game as if it had only these bodies."""

    def __init__(self, env: Any, bodies: list[str]) -> None:
        self._env = env
        self.possible_agents = bodies

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)
