"""``--opponent``: who plays the other bodies of a game in which the agent plays one."""

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from environments import (
    EnvironmentSpec,
    EnvironmentStep,
    RandomActions,
    VectorEnvironment,
    check_alike,
)
from trainer import build
from trainer.acting.playing import Choice, Game, Player
from trainer.acting.settings import LevelSettings
from trainer.settings.config import Settings
from trainer.trained import trained_agent
from trainer.trained.trained_agent import Trained
from user_error import UserError

RANDOM = "random"
MIRROR = "mirror"  # of --tell_bodies


class Opponent(Protocol):
    """Chooses actions for all rows of a batch."""

    def start(self, batch_size: int, seed: int) -> None:
        """Begins with new games."""

    def act(self, step: EnvironmentStep, last_action: np.ndarray) -> Any:
        """The actions to take on a row, as ``Choice.action`` [B, ...]."""


class _Actions(NamedTuple):
    action: np.ndarray


class AtRandom:
    """Plays at random."""

    def __init__(self, spec: EnvironmentSpec):
        self._spec = spec

    def start(self, batch_size: int, seed: int) -> None:
        """The same seed draws the same actions."""
        self._actions = RandomActions(self._spec, seed)

    def act(self, step: EnvironmentStep, last_action: np.ndarray) -> _Actions:
        """An action for each row."""
        return _Actions(self._actions.draw(len(step.first), seen=step.observation))


class Alone(Player):
    """An opponent in rows of its own."""

    def __init__(self, opponent: Opponent):
        self._opponent = opponent

    def start(self, batch_size: int, seed: int) -> None:
        """Begins with new games."""
        self._opponent.start(batch_size, seed)

    def act(self, step: EnvironmentStep, last_action: np.ndarray) -> Choice:
        """The actions to take on a row."""
        return Choice(self._opponent.act(step, last_action).action, np.zeros(0), ())


class Anyhow(Player):
    """Actions at random, with what an agent says of each row."""

    def __init__(self, player: Player, spec: EnvironmentSpec):
        self._player, self._random = player, AtRandom(spec)

    def start(self, batch_size: int, seed: int) -> None:
        """Resets both."""
        self._player.start(batch_size, seed)
        self._random.start(batch_size, seed)

    def act(self, step: EnvironmentStep, last_action: np.ndarray) -> Choice:
        """The agent's choice with other actions."""
        choice = self._player.act(step, last_action)
        return choice._replace(action=self._random.act(step, last_action).action)


class Against(Player):
    """An agent that plays one body of each game, the next one in the next game, and its opponent.

    Only the games of its own rows say how good it is, see ``own_games``.
    """

    def __init__(self, player: Player, opponent: Opponent, bodies: int):
        self._player, self._opponent, self._bodies = player, opponent, bodies

    def start(self, batch_size: int, seed: int) -> None:
        """Resets both."""
        self._own = np.array([_is_own(row, self._bodies) for row in range(batch_size)])
        self._player.start(batch_size, seed)
        self._opponent.start(batch_size, seed + 1)

    def act(self, step: EnvironmentStep, last_action: np.ndarray) -> Choice:
        """The agent's choice, with the actions of its opponent in the other rows."""
        choice = self._player.act(step, last_action)
        others = self._opponent.act(step, last_action).action
        own = self._own.reshape([-1] + [1] * (others.ndim - 1))
        return choice._replace(action=np.where(own, choice.action, others))


def against(settings: Settings, spec: EnvironmentSpec, player: Player) -> Player:
    """The player with ``--opponent``; itself where there is none."""
    chosen = settings.trained.opponent
    if not chosen:
        return player
    if spec.num_bodies == 1:
        raise UserError(
            f"--opponent={chosen}: only one body plays {spec.level_name}; leave it out, or give a "
            "level of several, such as pettingzoo:atari.pong_v3."
        )
    return Against(player, _chosen(settings, spec), spec.num_bodies)


def instead(settings: Settings, spec: EnvironmentSpec) -> Player:
    """The opponent in place of an agent that plays bodies of its own.

    It may have learned to play others, or all.
    """
    return Alone(_chosen(settings, spec, any_bodies=True))


def _chosen(settings: Settings, spec: EnvironmentSpec, any_bodies: bool = False) -> Opponent:
    chosen = settings.trained.opponent
    if chosen == RANDOM:
        return AtRandom(spec)
    return _trained(settings, spec, any_bodies)


def own_games(settings: Settings, spec: EnvironmentSpec, games: list[Game]) -> list[Game]:
    """Those games that the agent has played, not its ``--opponent``."""
    if not settings.trained.opponent:
        return games
    return [game for game in games if _is_own(game.environment, spec.num_bodies)]


def own_rows(settings: Settings, environment: VectorEnvironment) -> list[int]:
    """Those of its environments in which the agent plays, not its ``--opponent``."""
    rows, bodies = range(environment.num_envs), environment.spec.num_bodies
    return [row for row in rows if not settings.trained.opponent or _is_own(row, bodies)]


def _is_own(row: int, bodies: int) -> bool:
    """Whether the agent plays this row against an opponent."""
    return row % bodies == row // bodies % bodies


def check(settings: Settings) -> None:
    """Refuses an opponent that is not there; whether it fits shows when games are made."""
    if settings.trained.opponent not in ("", RANDOM):
        _find(settings)


def _find(settings: Settings) -> Trained:
    chosen = settings.trained.opponent
    try:
        exists, is_file = Path(chosen).exists(), Path(chosen).is_file()
    except OSError as error:  # it lies in a folder of somebody else
        raise UserError(f"--opponent={chosen} cannot be read ({error.strerror}).") from None
    if not exists:
        raise UserError(
            f"--opponent={chosen}: there is no such folder or file; expected {RANDOM}, the folder "
            "of a run or one of its checkpoints."
        )
    where = {"checkpoint": chosen} if is_file else {"logdir": chosen}
    return trained_agent.find(Settings(mode="test", **where), games=settings)


def _trained(settings: Settings, spec: EnvironmentSpec, any_bodies: bool) -> Player:
    """The agent of another run, with the settings of that run."""
    chosen, policy = settings.trained.opponent, settings.trained.test_policy
    found = _find(settings)
    theirs = found.spec()
    bodies = spec.bodies if any_bodies else theirs.bodies
    named = dataclasses.replace(theirs, level_name=f"that of --opponent={chosen}", bodies=bodies)
    check_alike(spec, named)
    _check_appearance(settings, found.settings, spec)
    return Player(found.agent(theirs), build.algorithm(found.settings), policy == "greedy")


def _check_appearance(settings: Settings, theirs: Settings, spec: EnvironmentSpec) -> None:
    """Refuses an opponent that has learned from other observations of the same shape."""
    seen, known = _appearance(settings.level, spec), _appearance(theirs.level, spec)
    for name, value in seen.items():
        if value != known[name]:
            raise UserError(
                f"--opponent={settings.trained.opponent}: it has learned with "
                f"--{name}={getattr(theirs.level, name)}, but these games have "
                f"--{name}={getattr(settings.level, name)}; expected an agent that has learned "
                "with the same."
            )


def _appearance(level: LevelSettings, spec: EnvironmentSpec) -> dict[str, Any]:
    """What changes observations and not their shape, by the names of flags."""
    return {
        "tell_bodies": level.tell_bodies == MIRROR,  # marks change the shape
        "crop": level.crop.replace(" ", "") if spec.image else "",
        "wrappers": level.wrappers.replace(" ", ""),
    }
