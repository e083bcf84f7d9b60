"""Environments: from a level's name to a batch of environments that step together."""

from environments.levels import make, spec
from environments.names import known_levels
from environments.step import (
    EnvironmentSpec,
    EnvironmentStep,
    Episode,
    VectorEnvironment,
    check_alike,
)

__all__ = [
    "EnvironmentSpec",
    "EnvironmentStep",
    "Episode",
    "VectorEnvironment",
    "check_alike",
    "known_levels",
    "make",
    "spec",
]
