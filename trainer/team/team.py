"""Learners that train together: what they tell one another with each update."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import tensorflow as tf

Tensors = list[tf.Tensor]


class Round(NamedTuple):
    """What every learner says besides its share of an update; the team adds it up."""

    batches: float = 0.0  # 1 where it has a batch
    steps: float = 0.0  # new agent steps in that batch
    weights_version: float = 0.0  # mean update count of the weights that chose their actions
    stop: float = 0.0  # 1 where it was told to stop
    gather: float = 0.0  # 1 where episodes are to be told now


class Team(Protocol):
    """The learners of a training, seen from one of them. All make the same calls in one order."""

    rank: int
    size: int

    def add_up(
        self, mine: Round, exact: Tensors, gradients: Tensors
    ) -> tuple[Round, Tensors, Tensors]:
        """The sums over all learners, of gradients as exact as ``--gradient_compression``."""

    def gather(self, rows: np.ndarray) -> np.ndarray:
        """All learners' rows [N, ...], one learner's below another's."""

    def share(self, variables: Sequence[tf.Variable]) -> None:
        """Gives all learners the first one's values."""

    def tell(self, value: Any) -> Any:
        """What the first learner gave, as JSON can tell it."""

    def waited_s(self) -> float:
        """Seconds spent on the others until now: waiting for them, and adding up with them."""


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

    def share(self, variables: Sequence[tf.Variable]) -> None:
        pass

    def tell(self, value: Any) -> Any:
        return value

    def waited_s(self) -> float:
        return 0.0


ALONE = Alone()
