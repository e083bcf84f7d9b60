"""Environments: from a level's name to a batch of environments that step together."""

from environments.levels import body_names, make, make_shared, shared_specs, spec
from environments.names import is_atari, is_real_time, known_levels, remark
from environments.realtime.levels import Remotes
from environments.shared import OfOneAgent, SharedEnvironment
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
    "OfOneAgent",
    "Remotes",
    "SharedEnvironment",
    "VectorEnvironment",
    "View",
    "body_names",
    "check_alike",
    "is_atari",
    "is_real_time",
    "known_levels",
    "make",
    "make_shared",
    "remark",
    "shared_specs",
    "spec",
]
