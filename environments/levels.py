"""From a level's name to its specification and to a batch of its environments."""

import contextlib
import functools
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from environments.atari import (
    MAX_FRAMES,
    MAX_STEPS_WITHOUT_REWARD,
    NOOP_MAX,
    AtariEnvironment,
)
from environments.atari_games import atari_spec
from environments.bodies.levels import bodies_environment, bodies_spec, shared_games
from environments.bodies.levels import body_names as body_names_of
from environments.bodies.levels import shared_specs as shared_specs_of
from environments.bodies.pettingzoo import AtariRules
from environments.names import AtariLevel, BodiesLevel, RealTimeLevel, UnityLevel, find
from environments.python.gym import GymnasiumEnvironment
from environments.python.levels import make_one
from environments.python.plain import gymnasium_spec
from environments.python.process_count import process_count
from environments.python.slices import Slice
from environments.python.workers import Workers
from environments.realtime import levels as realtime
from environments.shared import OfOneAgent, SharedEnvironment
from environments.step import EnvironmentSpec, VectorEnvironment
from environments.unity import levels as unity
from environments.view import View


def spec(level_name: str, **view: Any) -> EnvironmentSpec:
    """The specification of the level for an agent; `view` are fields of `View`."""
    level, shown = find(level_name), View(**view)
    if isinstance(level, AtariLevel):
        return atari_spec(level_name, level.rom, shown)
    if isinstance(level, BodiesLevel):
        return bodies_spec(level, level_name, shown)
    if isinstance(level, RealTimeLevel):
        return realtime.spec(level, level_name, shown)
    if isinstance(level, UnityLevel):
        return unity.spec(level, level_name, shown)
    env = make_one(level, level_name, shown)
    with contextlib.closing(env):
        return gymnasium_spec(env, level_name, shown)


def make(
    level_name: str,
    num_envs: int,
    seed: int,
    *,
    level_index: int = 0,
    sticky_actions: float | None = None,
    episodic_life: bool = False,
    noop_max: int = NOOP_MAX,
    max_episode_frames: int = MAX_FRAMES,
    max_rewardless_steps: int = MAX_STEPS_WITHOUT_REWARD,
    num_threads: int = 0,
    env_processes: int | None = 0,
    batches: int = 1,
    cores: int = 0,
    render: bool = False,
    whole_games: bool = False,
    remotes: realtime.Remotes | None = None,
    **view: Any,
) -> VectorEnvironment:
    """A batch of environments of one level, each with a seed of its own drawn from `seed`.

    Where several bodies play a game, each counts as an environment, and there are more than
    `num_envs` where that makes the last game whole; with `whole_games` there are `num_envs` games.
    The same goes for the agents of a Unity build, but their episodes are games for one.

    `sticky_actions` (None: as the id says), `episodic_life`, `noop_max`, `max_episode_frames` and
    `max_rewardless_steps` (0: no limit) and `num_threads` (0: one a core) are for Atari only.
    `env_processes` step the environments if these are written in Python (0: the caller's thread;
    None: as many as make steps faster where so many `batches` share so many `cores`, 0: all that
    this process may use). `render` enables `VectorEnvironment.render`, in the caller's thread; for
    Atari it needs a second emulator. `remotes` are where worlds in real time come from. `view` are
    fields of `View`.
    """
    level, shown = find(level_name), View(**view)
    seeds = environment_seeds(seed, num_envs)
    if isinstance(level, AtariLevel):
        return AtariEnvironment(
            atari_spec(level_name, level.rom, shown),
            level.rom,
            seeds,
            shown,
            level_index=level_index,
            sticky_actions=level.sticky_actions if sticky_actions is None else sticky_actions,
            episodic_life=episodic_life,
            noop_max=noop_max,
            max_episode_frames=max_episode_frames,
            max_rewardless_steps=max_rewardless_steps,
            num_threads=num_threads,
            render=render,
        )
    if isinstance(level, BodiesLevel):
        rules = AtariRules(noop_max, sticky_actions, max_episode_frames)
        return bodies_environment(
            level, level_name, seeds, shown, rules, level_index, render, whole_games
        )
    if isinstance(level, RealTimeLevel):
        places = remotes or realtime.Remotes()
        return realtime.make(level, level_name, shown, seeds.tolist(), places, level_index)
    if isinstance(level, UnityLevel):
        return unity.make(level, level_name, shown, seeds.tolist(), level_index)
    factory = functools.partial(make_one, level, level_name, shown, render)
    if env_processes is None and not render:
        with contextlib.closing(factory()) as one:
            env_processes = process_count(one, num_envs, batches, cores)
    stepped: Slice | Workers
    if render or not env_processes:
        stepped = Slice(factory, seeds.tolist(), level_name, shown)
    else:
        count = min(env_processes, num_envs)
        stepped = Workers(factory, seeds.tolist(), level_name, shown, count)
    return GymnasiumEnvironment(stepped, level_index)


def body_names(level_name: str, **view: Any) -> tuple[str, ...]:
    """The bodies of a game in which there are several; none for other levels."""
    level = find(level_name)
    return body_names_of(level, level_name, View(**view)) if isinstance(level, BodiesLevel) else ()


def shared_specs(
    level_name: str, shares: Sequence[Sequence[int]], **view: Any
) -> list[EnvironmentSpec]:
    """What each of several agents needs to know; `shares` are their bodies, counted from 0."""
    level = find(level_name)
    if isinstance(level, BodiesLevel):
        return shared_specs_of(level, level_name, View(**view), shares)
    return [spec(level_name, **view)]


def make_shared(
    level_name: str, num_envs: int, seed: int, shares: Sequence[Sequence[int]], **others: Any
) -> SharedEnvironment:
    """Environments in which several agents play; `others` are arguments of `make`."""
    level = find(level_name)
    if not isinstance(level, BodiesLevel):
        return OfOneAgent(make(level_name, num_envs, seed, **others))
    view = {field.name: others[field.name] for field in fields(View) if field.name in others}
    rules = AtariRules(
        others.get("noop_max", NOOP_MAX),
        others.get("sticky_actions"),
        others.get("max_episode_frames", MAX_FRAMES),
    )
    return shared_games(
        level,
        level_name,
        environment_seeds(seed, num_envs),
        View(**view),
        rules,
        shares,
        others.get("level_index", 0),
        others.get("render", False),
        others.get("whole_games", False),
    )


def environment_seeds(seed: int, num_envs: int) -> np.ndarray:
    """Distinct seeds of 31 bits; nearby values of `seed` almost never share any."""
    start = np.random.SeedSequence(seed).generate_state(1)[0] >> 2
    return np.arange(num_envs, dtype=np.int64) + int(start)
