"""Environments: from a level's name to a batch of environments that step together."""

from environments.levels import make, spec
from environments.names import is_atari, is_real_time, known_levels, remark
from environments.realtime.levels import Remotes
from environments.step import (
    EnvironmentSpec,
    EnvironmentStep,
    Episode,
    Measure,
    VectorEnvironment,
    check_alike,
)
from environments.view import View

__all__ = [
    "EnvironmentSpec",
    "EnvironmentStep",
    "Episode",
    "Measure",
    "Remotes",
    "VectorEnvironment",
    "View",
    "check_alike",
    "is_atari",
    "is_real_time",
    "known_levels",
    "make",
    "remark",
    "spec",
]
