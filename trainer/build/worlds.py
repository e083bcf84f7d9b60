"""Environments: of actors, and of evaluations."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import environments
from environments import EnvironmentSpec, Remotes, SharedEnvironment, VectorEnvironment
from trainer.build.choices import level_spec, looks
from trainer.machine.quota import usable_cores
from trainer.machine.terminal import say
from trainer.machine.threads import threads_named
from trainer.settings import checks, sizes
from trainer.settings.config import Settings
from user_error import UserError


def actor_environment(
    settings: Settings, index: int, start: int = 0, spec: EnvironmentSpec | None = None
) -> VectorEnvironment:
    """The environments of an actor, see ``actor``; actors take the levels in turn.

    ``spec`` is the run's; it is found out if it is not given.
    """
    made = _actor_environment(settings, index, start, environments.make)
    return _fitted(made, settings, spec)


def shared_environment(
    settings: Settings, index: int, shares: Sequence[Sequence[int]], start: int = 0
) -> SharedEnvironment:
    """The same where several agents play; ``shares`` are the bodies of each."""
    make = functools.partial(environments.make_shared, shares=shares)
    return _actor_environment(settings, index, start, make)


def test_environment(
    settings: Settings, level: int, count: int, seed: int, spec: EnvironmentSpec | None = None
) -> VectorEnvironment:
    """``count`` games for evaluation, rendered if they are recorded or watched.

    There are fewer where each is a program of its own, and as many as the level has ``--remotes``
    at most. ``spec`` is the agent's, as above.
    """
    made = _test_environment(settings, level, count, seed, environments.make)
    return _fitted(made, settings, spec)


def shared_test_environment(
    settings: Settings, level: int, count: int, seed: int, shares: Sequence[Sequence[int]]
) -> SharedEnvironment:
    """The same where several agents play; ``shares`` are the bodies of each."""
    make = functools.partial(environments.make_shared, shares=shares)
    return _test_environment(settings, level, count, seed, make)


def seed_of(seed: int, start: int) -> int:
    """The seed of an actor, so that it repeats no episodes: ``start`` grows with the training."""
    if not start:
        return seed
    return int(np.random.SeedSequence([seed, start]).generate_state(1)[0]) % 2**31


def _actor_environment(settings: Settings, index: int, start: int, make: Callable[..., Any]) -> Any:
    level = index % len(settings.level.levels)
    with threads_named("emulator"):
        return make(
            settings.level.levels[level],
            sizes.envs_per_actor(settings),
            # Far apart, so that no two actors share a seed.
            seed_of(settings.program.seed + index * 1_000_003, start),
            level_index=level,
            sticky_actions=settings.level.sticky_actions,
            episodic_life=settings.level.episodic_life,
            noop_max=settings.level.noop_max,
            max_episode_frames=settings.level.max_episode_frames,
            max_rewardless_steps=settings.level.max_rewardless_steps,
            num_threads=_emulator_threads(settings),
            env_processes=settings.actors.worker_processes,
            batches=(
                settings.actors.num_actors
                if settings.program.job_name == "local"
                else settings.actors.actors_on_host
            ),
            cores=usable_cores(),
            remotes=_remotes(settings, index),
            **looks(settings),
        )


def _test_environment(
    settings: Settings, level: int, count: int, seed: int, make: Callable[..., Any]
) -> Any:
    remotes = _test_remotes(settings, level)
    if settings.level.is_heavy:
        count = min(count, len(remotes.addresses) or sizes.HEAVY_ENVS)
    return make(
        settings.level.levels[level],
        count,
        seed,
        level_index=level,
        sticky_actions=settings.level.sticky_actions,
        episodic_life=False,
        noop_max=settings.level.noop_max,
        max_episode_frames=settings.level.max_episode_frames,
        max_rewardless_steps=0,
        remotes=remotes,
        num_threads=settings.actors.env_threads or usable_cores(),
        render=settings.trained.draws,
        whole_games=True,
        **looks(settings),
    )


def _fitted(
    environment: VectorEnvironment, settings: Settings, spec: EnvironmentSpec | None
) -> VectorEnvironment:
    """The environment for the agent of all levels."""
    if spec is None and len(settings.level.levels) > 1:
        spec = level_spec(settings)
    return environments.fitted(environment, spec) if spec and spec.kinds else environment


def _remotes(settings: Settings, index: int) -> Remotes:
    """Where an actor's worlds in real time come from; each actor of a run has its own."""
    checks.check_desktops(settings)
    acting, count = settings.actors, sizes.envs_per_actor(settings)
    given = tuple(filter(None, acting.remotes.split(",")))
    mine = given[index * count :]
    return Remotes(mine, acting.remote_password_file, acting.injected_lag_ms, say, bool(given))


def _test_remotes(settings: Settings, level: int) -> Remotes:
    """Those of one level: each has as many, in the order of the levels, as each serves one."""
    remotes, levels = _remotes(settings, 0), settings.level.levels
    each, left = divmod(len(remotes.addresses), len(levels))
    if left:
        raise UserError(
            f"--remotes: {len(remotes.addresses)} remotes for {len(levels)} levels "
            f"({', '.join(levels)}); expected as many for each level, in this order. Name more of "
            "them, or fewer levels."
        )
    return remotes._replace(addresses=remotes.addresses[level * each :][:each])


def _emulator_threads(settings: Settings) -> int:
    """Threads for an actor's emulators: as many as the cores that may be used by it."""
    return settings.actors.env_threads or max(1, usable_cores() // settings.actors.actors_on_host)
