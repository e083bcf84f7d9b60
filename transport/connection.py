"""A connection to a learner, and what its other end knows of the learner's process."""

import dataclasses
from typing import Any, Protocol

import numpy as np

from transport.layout import Layout


class Connection(Protocol):
    """To a running learner: of ``transport.distributed`` or ``.secure``."""

    def about(self) -> bytes: ...
    def write(self, letter: bytes) -> int: ...
    def put(self, header: np.ndarray, block: np.ndarray) -> int: ...
    def weights(self, limit_s: float) -> tuple[np.ndarray, int]: ...
    def close(self) -> None: ...


@dataclasses.dataclass
class Process:
    """What is known of a process of the learner, and which of its weights this end has."""

    id: str = ""
    weights: Layout | None = None
    most: Any = None  # unrolls of an actor's block that it has room for
    largest: Any = None  # those of the largest block that it unpacks
    version: int = -1  # of the weights in use; -1 before its first
    newest: int = -1  # version that it has, as far as is known
    is_current: bool = False  # the connection has brought its newest weights, if any
    fetch_from: float = 0.0  # when the next weights may be fetched
    late_weights: int = 0  # tries to fetch some that took too long, since the last that came
    has_finished: bool = False  # it needs no more
    has_refused: bool = False  # a block, and the reason has been printed
