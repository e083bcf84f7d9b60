"""How the unrolls that actors play become batches. Imports nothing heavy."""

import dataclasses
from typing import ClassVar


@dataclasses.dataclass(frozen=True)
class FirstInFirstOut:
    """Unrolls are trained on in the order of arrival; recent ones may be replayed."""

    actors_wait: ClassVar[bool] = False  # for other weights before they play on
    replayed: float = 0.0  # the fraction of a batch that is drawn from recent unrolls
    capacity: int = 0  # recent unrolls kept for replay

    def fresh(self, batch_size: int) -> int:
        """The number of new unrolls in a batch."""
        return max(1, batch_size - round(batch_size * self.replayed))


@dataclasses.dataclass(frozen=True)
class InStep:
    """Actors wait while the learner learns from what they have played with its newest weights."""

    actors_wait: ClassVar[bool] = True
    epochs: int = 1  # times that it goes through a batch
    minibatches: int = 1  # updates of an epoch
    whole_episodes: bool = False  # a batch is so many episodes, from their beginnings to their ends
    piece_length: int = 0  # agent steps that stay together in a minibatch; 0: a whole unroll

    def fresh(self, batch_size: int) -> int:
        """The number of new unrolls in a batch."""
        return batch_size


@dataclasses.dataclass(frozen=True)
class Replayed:
    """Windows of the newest steps, drawn at random; actors play as fast as updates follow."""

    actors_wait: ClassVar[bool] = False
    capacity: int  # agent steps that are kept
    warm_up: int  # agent steps before the first update
    updates_per_step: float
    ahead: int = 1  # rows that a target needs after the row that it is for
    burn_in: int = 0  # rows that only bring an LSTM's state up to date
    priority_exponent: float | None = None  # None: all windows are drawn alike
    importance_exponent: float = 0.0
    kept: bool = False  # beside the checkpoints
    played: str = ""  # a folder of play that the store begins with

    def fresh(self, batch_size: int) -> int:
        """The number of new unrolls in a batch: none is drawn for being new."""
        return 1


@dataclasses.dataclass(frozen=True)
class Gradients:
    """Actors send gradients of what they have played; each is applied as it comes.

    An actor waits until the learner has other weights than those of its last unroll.
    """

    actors_wait: ClassVar[bool] = True
    shared_optimizer: bool = True  # otherwise each actor has an optimizer of its own

    def fresh(self, batch_size: int) -> int:
        """The number of new unrolls in a batch."""
        return batch_size


Feeding = FirstInFirstOut | InStep | Replayed | Gradients
# What is recorded with a window that was drawn by priority: its weight in the loss.
IMPORTANCE = "importance"
# The sample of a loss that becomes windows' priorities: how far off each transition was, from 0.
ERROR = "error"
