"""From settings to environments and agents."""

from typing import Any

import tensorflow as tf

import agents
import environments
from algorithms import registry
from algorithms.algorithm import Algorithm
from environments import EnvironmentSpec, VectorEnvironment
from trainer.machine import precision
from trainer.machine.threads import threads_named
from trainer.settings import sizes
from trainer.settings.config import Settings


def level_spec(settings: Settings) -> EnvironmentSpec:
    """What all levels of the run have in common, each of them looked at."""
    specs = [environments.spec(level, **_looks(settings)) for level in settings.level.levels]
    environments.check_alike(specs)
    return specs[0]


def complete(settings: Settings, spec: EnvironmentSpec) -> Settings:
    """With what fits the level in place of what was left open."""
    return settings.replace(
        agent_name=agent_name(settings, spec),
        total_environment_frames=settings.learning.total_environment_frames
        or frames_to_train(spec),
    )


def algorithm(settings: Settings) -> Algorithm:
    """The algorithm of ``--algorithm``, with its own settings."""
    return registry.make(settings.program.algorithm, settings.algorithm, len(settings.level.levels))


def frames_to_train(spec: EnvironmentSpec) -> int:
    """How long a level is trained where no one says."""
    return 10_000_000 if spec.image else 1_000_000


def actor_environment(settings: Settings, actor: int) -> VectorEnvironment:
    """The environments of an actor; levels are dealt out to actors in turn."""
    level = actor % len(settings.level.levels)
    with threads_named("emulator"):
        return environments.make(
            settings.level.levels[level],
            sizes.envs_per_actor(settings),
            # Far apart, so that no two actors share a seed.
            settings.program.seed + actor * 1_000_003,
            level_index=level,
            sticky_actions=settings.level.sticky_actions,
            episodic_life=settings.level.episodic_life,
            num_threads=settings.actors.env_threads,
            **_looks(settings),
        )


def test_environment(settings: Settings, level: int, count: int, seed: int) -> VectorEnvironment:
    """Environments to evaluate on: whole games, and pictures where they are wanted."""
    return environments.make(
        settings.level.levels[level],
        count,
        seed,
        level_index=level,
        sticky_actions=settings.level.sticky_actions,
        num_threads=settings.actors.env_threads,
        render=bool(settings.trained.video or settings.trained.watch),
        **_looks(settings),
    )


def _looks(settings: Settings) -> dict[str, Any]:
    """The settings that change what a level looks like to an agent."""
    return {
        "num_action_repeats": settings.level.num_action_repeats,
        "width": settings.level.width,
        "height": settings.level.height,
        "full_action_set": settings.level.full_action_set,
    }


def agent_name(settings: Settings, spec: EnvironmentSpec) -> str:
    """The agent asked for, or the one that fits the level."""
    return settings.agent.agent_name or agents.default_name(spec.observation_space)


def learning_agent(settings: Settings, spec: EnvironmentSpec) -> Any:
    """An agent with float32 weights."""
    return _agent(settings, spec, tf.float32)


def acting_agent(settings: Settings, spec: EnvironmentSpec) -> Any:
    """An agent whose large weights are kept in the precision that it computes in."""
    return _agent(settings, spec, precision.compute_dtype(settings.agent.precision))


def _agent(settings: Settings, spec: EnvironmentSpec, weights_dtype: tf.DType) -> Any:
    return agents.make(
        agent_name(settings, spec),
        spec.observation_space,
        spec.action_space,
        spec.frame_stack,
        compute_dtype=precision.compute_dtype(settings.agent.precision),
        weights_dtype=weights_dtype,
        seed=settings.program.seed,
        baselines=algorithm(settings).baselines,
    )
