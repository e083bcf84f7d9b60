"""Actors, and the seats of several agents in the same environments."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from environments import VectorEnvironment
from trainer.acting.actor import Actor, Policy, Seat
from trainer.acting.holding import Holding
from trainer.acting.settings import MOST_ENVS
from trainer.build.choices import algorithm
from trainer.build.worlds import seed_of
from trainer.settings.config import Settings

GOLDEN = (5**0.5 - 1) / 2


def actor(
    settings: Settings,
    environment: VectorEnvironment,
    policy: Policy,
    index: int,
    check: Callable[[], None],
    start: int = 0,
) -> Actor:
    """Actor ``index`` of a process; see ``Actor``, and ``seed_of`` for ``start``."""
    level = index % len(settings.level.levels)
    of_seat = _seat(settings, environment, index, level, start)
    return Actor(environment, policy, settings.actors.unroll_length, check=check, **of_seat)


def seat(
    settings: Settings,
    environment: VectorEnvironment,
    policy: Policy,
    index: int,
    level: int,
    start: int = 0,
) -> Seat:
    """An agent's seat in the environments of actor ``index``; ``level`` is among its own levels."""
    of_seat = _seat(settings, environment, index, level, start)
    return Seat(environment, policy, settings.actors.unroll_length, **of_seat)


def _seat(
    settings: Settings, environment: VectorEnvironment, index: int, level: int, start: int
) -> dict[str, Any]:
    seed = seed_of(settings.program.seed * 100_003 + index, start)
    return {
        "level": level,
        "seed": seed,
        # 32 bits are enough for 524,288 actors; those so far apart share their streams.
        "first_stream": index * MOST_ENVS % 2**31,
        "chance": _chance(settings, index, environment.num_envs),
        "holding": _holding(settings, environment, seed),
        "in_step": settings.algorithm.feeding.actors_wait,
    }


def _chance(settings: Settings, index: int, count: int) -> Callable[[int], np.ndarray] | None:
    """The chance of random actions in an actor's environments, by the number of updates."""
    playing = algorithm(settings)
    if not playing.explores:
        return None
    # Evenly spread, however many actors there are.
    places = (np.arange(index * count, (index + 1) * count) * GOLDEN % 1.0).astype(np.float32)
    return lambda updates: playing.exploration(updates, places)


def _holding(settings: Settings, environment: VectorEnvironment, seed: int) -> Holding | None:
    """Exploration where nothing is rewarded, if each action is allowed to every body always."""
    after, spec = algorithm(settings).holds_after, environment.spec
    acts = spec.action_space
    if not after or spec.masked or spec.kinds or not isinstance(acts, gymnasium.spaces.Discrete):
        return None
    return Holding(after, int(acts.n), environment.num_envs, seed)
