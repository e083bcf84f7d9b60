"""The data that flows from environments to the learner.

Shapes are ``[T + 1, B, ...]`` with time first; docs/architecture.md explains row 0.
The fields hold NumPy arrays on the actor's side and tensors on the learner's.
"""

from typing import Any, NamedTuple

import numpy as np

from environments import EnvironmentStep

__all__ = ["EnvironmentStep", "Episodes", "Unroll", "same_rows"]


# Begins the names of a level's measures among what is recorded.
MEASURED = "measured."


class Episodes(NamedTuple):
    """Episodes that ended at a row, ``[T + 1, B]``; a length of 0 means none."""

    raw_return: Any  # float32: undiscounted, unclipped, all lives
    length: Any  # int32: agent steps


class Unroll(NamedTuple):
    """``B`` unrolls side by side."""

    environment: EnvironmentStep  # [T + 1, B, ...]
    action: Any  # [T + 1, B, ...]: the action that led to each row
    # float32 [T + 1, B] each: recorded by the algorithm with each action, and a level's measures
    recorded: dict[str, Any]
    initial_state: Any  # nest of [B, ...]: the agent's state before row 0
    episodes: Episodes  # [T + 1, B]; row 0 belongs to the previous unroll
    level: Any  # int32 [B]: index into --level_name
    stream: Any  # int32 [B]: which environment of the run
    number: Any  # int32 [B]: how many unrolls of this environment its actor played before
    # float32 [B]: the mean update count of the weights that chose the actions; in step, the lowest
    weights_version: Any


def same_rows(last: EnvironmentStep, first: EnvironmentStep) -> np.ndarray:
    """[B]: which of these rows [B, ...] are equal.

    Row 0 of an unroll is the last row of the one before. Numbers alone do not show that an unroll
    follows another: those of two actors may be the same.
    """
    same = np.ones(len(first.first), bool)
    for one, other in zip(last, first, strict=True):
        equal = (one == other) | ((one != one) & (other != other))  # nan, too
        same &= equal.reshape(len(same), -1).all(axis=1)
    return same
