"""What a run has chosen: how its levels look, its algorithm, its agent, and what fits them."""

import dataclasses
from typing import Any

import gymnasium

import agents
import environments
from algorithms import registry
from algorithms.algorithm import Algorithm
from algorithms.settings import AlgorithmSettings, Kind
from environments import EnvironmentSpec, View
from trainer.settings.config import Settings


def level_spec(settings: Settings) -> EnvironmentSpec:
    """The spec that all levels of the run share; an error if no agent can play them all."""
    return environments.together(level_specs(settings))


def level_specs(settings: Settings) -> list[EnvironmentSpec]:
    """Each level's own spec."""
    return [environments.spec(level, **looks(settings)) for level in settings.level.levels]


def looks(settings: Settings) -> dict[str, Any]:
    """The settings that change how an agent sees a level."""
    return {field.name: getattr(settings.level, field.name) for field in dataclasses.fields(View)}


def complete(settings: Settings, spec: EnvironmentSpec) -> Settings:
    """The settings, with values that fit the level where none were chosen."""
    return settings.filled(
        agent_name=agent_name(settings, spec),
        total_environment_frames=settings.learning.total_environment_frames
        or frames_to_train(spec),
        **dataclasses.asdict(_of_algorithm(settings, spec)),
    )


def frames_to_train(spec: EnvironmentSpec) -> int:
    """The default of ``--total_environment_frames``."""
    return 10_000_000 if spec.image else 1_000_000


def agent_name(settings: Settings, spec: EnvironmentSpec) -> str:
    """The name of the chosen agent, or of one that fits the level."""
    return settings.agent.agent_name or agents.default_name(spec.observation_space)


def algorithm(settings: Settings) -> Algorithm:
    """The algorithm of ``--algorithm``, with its own settings."""
    levels = settings.level.levels
    return registry.make(settings.program.algorithm, _of_algorithm(settings), len(levels))


def _of_algorithm(settings: Settings, spec: EnvironmentSpec | None = None) -> AlgorithmSettings:
    """The algorithm's settings, completed for the levels of the run."""
    atari = all(map(environments.has_atari_scores, settings.level.levels))
    if spec is None:
        return settings.algorithm.completed(Kind(atari))
    continuous = isinstance(spec.action_space, gymnasium.spaces.Box)
    return settings.algorithm.completed(Kind(atari, not spec.image, continuous))


def activation(settings: Settings) -> str:
    """What follows the layers of a network of vectors."""
    return settings.agent.activation.replace("auto", algorithm(settings).heads.activation)
