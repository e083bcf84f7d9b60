"""From a level's name to its specification and to a batch of its environments."""

import contextlib
import functools
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from environments.atari import AtariEnvironment
from environments.atari_games import atari_spec
from environments.bodies.levels import bodies_environment, bodies_spec, shared_games
from environments.bodies.levels import body_names as body_names_of
from environments.bodies.levels import shared_specs as shared_specs_of
from environments.names import AtariLevel, BodiesLevel, Level, RealTimeLevel, UnityLevel, find
from environments.python.gym import GymnasiumEnvironment
from environments.python.levels import make_one
from environments.python.plain import gymnasium_spec
from environments.python.process_count import process_count
from environments.python.slices import Factory, Slice
from environments.python.workers import Workers
from environments.realtime import levels as realtime
from environments.rules import AtariRules
from environments.shared import OfOneAgent, SharedEnvironment
from environments.step import EnvironmentSpec, VectorEnvironment
from environments.unity import levels as unity
from environments.view import View
from user_error import UserError


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
    num_threads: int = 0,
    env_processes: int | None = 0,
    batches: int = 1,
    cores: int = 0,
    render: bool = False,
    whole_games: bool = False,
    remotes: realtime.Remotes | None = None,
    **how: Any,
) -> VectorEnvironment:
    """A batch of environments of one level, each with a seed of its own drawn from `seed`.

    Where several bodies play a game, each counts as an environment, and there are more than
    `num_envs` where that makes the last game whole; with `whole_games` there are `num_envs` games.
    The same goes for the agents of a Unity build, but their episodes are games for one.

    `how` are fields of `View` and, for Atari, of `AtariRules`; `num_threads` (0: one a core) step
    its emulators. `env_processes` step the environments if these are written in Python (0: the
    caller's thread; None: as many as make steps faster where so many `batches` share so many
    `cores`, 0: all that this process may use). `render` enables `VectorEnvironment.render`, in the
    caller's thread; for Atari it needs a second emulator. `remotes` are where worlds in real time
    come from.
    """
    level, seeds = find(level_name), environment_seeds(seed, num_envs)
    _check_remotes(level, level_name, remotes)
    rules, view = _rules_and_others(how)
    shown = View(**view)
    if isinstance(level, AtariLevel):
        return _atari(level, level_name, seeds, shown, rules, level_index, num_threads, render)
    if isinstance(level, BodiesLevel):
        return bodies_environment(
            level, level_name, seeds, shown, rules, level_index, render, whole_games
        )
    if isinstance(level, RealTimeLevel):
        places = remotes or realtime.Remotes()
        return realtime.make(level, level_name, shown, rules, seeds.tolist(), places, level_index)
    if isinstance(level, UnityLevel):
        return unity.make(level, level_name, shown, seeds.tolist(), level_index)
    factory = functools.partial(make_one, level, level_name, shown, render)
    processes = 0 if render else env_processes
    stepped = _stepped(factory, seeds.tolist(), level_name, shown, processes, batches, cores)
    return GymnasiumEnvironment(stepped, level_index)


def _check_remotes(level: Level, level_name: str, remotes: realtime.Remotes | None) -> None:
    """Refuses remotes where the level is not played on desktops: another game would be."""
    if remotes and remotes.addresses and not isinstance(level, RealTimeLevel):
        raise UserError(
            f"remotes: {level_name} is not played on desktops: expected vnc:NAME. Or leave them "
            "out."
        )


def _rules_and_others(how: dict[str, Any]) -> tuple[AtariRules, dict[str, Any]]:
    """The rules of Atari's games among these arguments, and the others."""
    rules = {field.name for field in fields(AtariRules)} & how.keys()
    others = {name: value for name, value in how.items() if name not in rules}
    return AtariRules(**{name: how[name] for name in rules}), others


def _atari(
    level: AtariLevel,
    level_name: str,
    seeds: np.ndarray,
    view: View,
    rules: AtariRules,
    level_index: int,
    num_threads: int,
    render: bool,
) -> AtariEnvironment:
    if rules.sticky_actions is None:
        rules = replace(rules, sticky_actions=level.sticky_actions)
    return AtariEnvironment(
        atari_spec(level_name, level.rom, view),
        level.rom,
        seeds,
        view,
        rules,
        level_index=level_index,
        num_threads=num_threads,
        render=render,
    )


def _stepped(
    factory: Factory,
    seeds: list[int],
    level_name: str,
    view: View,
    processes: int | None,
    batches: int,
    cores: int,
) -> Slice | Workers:
    """Environments written in Python, see `make`."""
    if processes is None:
        with contextlib.closing(factory()) as one:
            processes = process_count(one, len(seeds), batches, cores)
    if not processes:
        return Slice(factory, seeds, level_name, view)
    return Workers(factory, seeds, level_name, view, min(processes, len(seeds)))


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
    _check_remotes(level, level_name, others.get("remotes"))
    rules, others = _rules_and_others(others)
    view = {field.name: others[field.name] for field in fields(View) if field.name in others}
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
