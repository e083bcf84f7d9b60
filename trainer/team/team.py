"""Learners that train together: what they exchange with each update."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import tensorflow as tf

Tensors = list[tf.Tensor]


class Round(NamedTuple):
    """What each learner contributes besides its gradients; the team adds it up."""

    batches: float = 0.0  # 1 if it has a batch
    steps: float = 0.0  # new agent steps in that batch
    weights_version: float = 0.0  # mean update count of the weights that chose the actions
    stop: float = 0.0  # 1 if it was asked to stop
    reached: float = 0.0  # 1 if what it was asked to train for is reached
    played_s: float = 0.0  # seconds for which its actors played that batch in step
    gather: float = 0.0  # 1 if episodes should be gathered now


class Team(Protocol):
    """The learners of a training, seen from one of them. All make the same calls in order."""

    rank: int
    size: int

    def add_up(
        self, mine: Round, exact: Tensors, gradients: Tensors
    ) -> tuple[Round, Tensors, Tensors]:
        """The sums over all learners, of gradients as exact as ``--gradient_compression``."""

    def gather(self, rows: np.ndarray) -> np.ndarray:
        """The rows [N, ...] of all learners, joined in the order of ranks."""

    def broadcast(self, variables: Sequence[tf.Variable]) -> None:
        """Copies the first learner's values to all learners."""

    def broadcast_value(self, value: Any) -> Any:
        """Returns the first learner's ``value``, which must be valid JSON, on all learners."""

    def waited_s(self) -> float:
        """Seconds spent so far waiting for other learners and adding up with them."""


class Alone:
    """The team of a learner that trains by itself."""

    rank = 0
    size = 1

    def add_up(
        self, mine: Round, exact: Tensors, gradients: Tensors
    ) -> tuple[Round, Tensors, Tensors]:
        return mine, exact, gradients

    def gather(self, rows: np.ndarray) -> np.ndarray:
        return rows

    def broadcast(self, variables: Sequence[tf.Variable]) -> None:
        pass

    def broadcast_value(self, value: Any) -> Any:
        return value

    def waited_s(self) -> float:
        return 0.0


ALONE = Alone()
