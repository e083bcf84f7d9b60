"""From the name of a game of several bodies to its specification and to a batch of it."""

import contextlib
from collections.abc import Sequence

import numpy as np

from environments.bodies.environment import BodiesEnvironment
from environments.bodies.game import Game
from environments.bodies.pettingzoo import make_game
from environments.bodies.shared import SharedGames, views_of
from environments.bodies.views import BodyView
from environments.names import BodiesLevel
from environments.rules import AtariRules
from environments.step import EnvironmentSpec
from environments.view import View


def bodies_spec(level: BodiesLevel, level_name: str, view: View) -> EnvironmentSpec:
    """The specification of the game for an agent that plays all of its bodies."""
    with contextlib.closing(make_game(level, level_name, view, AtariRules())) as env:
        return BodyView(env, level_name, view, level.is_atari).spec


def bodies_environment(
    level: BodiesLevel,
    level_name: str,
    seeds: np.ndarray,
    view: View,
    rules: AtariRules,
    level_index: int,
    render: bool,
    whole_games: bool,
) -> BodiesEnvironment:
    """As many games as have at least one body for each seed, or a game for each seed."""
    games = _games(level, level_name, len(seeds), view, rules, render, whole_games)
    shown = BodyView(games[0].env, level_name, view, level.is_atari)
    return BodiesEnvironment(games, seeds[: len(games)].tolist(), shown, level_index)


def body_names(level: BodiesLevel, level_name: str, view: View) -> tuple[str, ...]:
    """The names of a game's bodies, in order."""
    with contextlib.closing(make_game(level, level_name, view, AtariRules())) as env:
        return tuple(env.possible_agents)


def shared_specs(
    level: BodiesLevel, level_name: str, view: View, shares: Sequence[Sequence[int]]
) -> list[EnvironmentSpec]:
    """The specification of the game for each agent, of which `shares` are the bodies."""
    with contextlib.closing(make_game(level, level_name, view, AtariRules())) as env:
        games = [Game(env, tuple(env.possible_agents))]
        views = views_of(env, level_name, view, level.is_atari, shares)
        return [part.spec for part in SharedGames(games, [0], views, 0).parts]


def shared_games(
    level: BodiesLevel,
    level_name: str,
    seeds: np.ndarray,
    view: View,
    rules: AtariRules,
    shares: Sequence[Sequence[int]],
    level_index: int,
    render: bool,
    whole_games: bool,
) -> SharedGames:
    """The same as `bodies_environment` for several agents, of which `shares` are the bodies."""
    games = _games(level, level_name, len(seeds), view, rules, render, whole_games)
    views = views_of(games[0].env, level_name, view, level.is_atari, shares)
    return SharedGames(games, seeds[: len(games)].tolist(), views, level_index)


def _games(
    level: BodiesLevel,
    level_name: str,
    seeds: int,
    view: View,
    rules: AtariRules,
    render: bool,
    whole_games: bool,
) -> list[Game]:
    first = make_game(level, level_name, view, rules, render)
    bodies = tuple(first.possible_agents)
    count = seeds if whole_games else -(-seeds // len(bodies))
    envs = [first, *(make_game(level, level_name, view, rules, render) for _ in range(count - 1))]
    return [Game(env, bodies) for env in envs]
