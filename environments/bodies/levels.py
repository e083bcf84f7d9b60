"""From the name of a game of several bodies to its specification and to a batch of it."""

import contextlib

import numpy as np

from environments.bodies.environment import BodiesEnvironment
from environments.bodies.game import Game
from environments.bodies.pettingzoo import AtariRules, is_atari, make_game
from environments.bodies.views import BodyView
from environments.names import BodiesLevel
from environments.step import EnvironmentSpec
from environments.view import View


def bodies_spec(level: BodiesLevel, level_name: str, view: View) -> EnvironmentSpec:
    """The specification of the game for an agent that plays all of its bodies."""
    with contextlib.closing(make_game(level, level_name, view, AtariRules())) as env:
        return BodyView(env, level_name, view, is_atari(level.module)).spec


def bodies_environment(
    level: BodiesLevel,
    level_name: str,
    seeds: np.ndarray,
    view: View,
    rules: AtariRules,
    level_index: int = 0,
    render: bool = False,
    whole_games: bool = False,
) -> BodiesEnvironment:
    """As many games as have at least one body for each seed, or a game for each seed."""
    first = make_game(level, level_name, view, rules, render)
    shown = BodyView(first, level_name, view, is_atari(level.module))
    bodies = shown.spec.bodies
    count = len(seeds) if whole_games else -(-len(seeds) // len(bodies))
    envs = [first, *(make_game(level, level_name, view, rules, render) for _ in range(count - 1))]
    games = [Game(env, bodies) for env in envs]
    return BodiesEnvironment(games, seeds[:count].tolist(), shown, level_index)
