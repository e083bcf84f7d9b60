"""Environments: from a level's name to a batch of environments that step together."""

from environments.levels import make, spec
from environments.names import is_atari, known_levels, remark
from environments.step import (
    EnvironmentSpec,
    EnvironmentStep,
    Episode,
    VectorEnvironment,
    check_alike,
)
from environments.view import View

__all__ = [
    "EnvironmentSpec",
    "EnvironmentStep",
    "Episode",
    "VectorEnvironment",
    "View",
    "check_alike",
    "is_atari",
    "known_levels",
    "make",
    "remark",
    "spec",
]
