"""Environments: from a level's name to a batch of environments that step together."""

from environments.kinds.fitted import fitted
from environments.kinds.rows import RandomActions, narrowed, widened
from environments.kinds.specs import check_alike, described, numbers_of, of_row, together
from environments.levels import body_names, make, make_shared, shared_specs, spec
from environments.names import has_atari_scores, is_real_time, known_levels, remark
from environments.realtime.levels import Remotes
from environments.shared import OfOneAgent, SharedEnvironment
from environments.step import (
    BodyKind,
    EnvironmentSpec,
    EnvironmentStep,
    Episode,
    Measure,
    VectorEnvironment,
)
from environments.view import View

__all__ = [
    "BodyKind",
    "EnvironmentSpec",
    "EnvironmentStep",
    "Episode",
    "Measure",
    "OfOneAgent",
    "RandomActions",
    "Remotes",
    "SharedEnvironment",
    "VectorEnvironment",
    "View",
    "body_names",
    "check_alike",
    "described",
    "fitted",
    "has_atari_scores",
    "is_real_time",
    "known_levels",
    "make",
    "make_shared",
    "narrowed",
    "numbers_of",
    "of_row",
    "remark",
    "shared_specs",
    "spec",
    "together",
    "widened",
]
