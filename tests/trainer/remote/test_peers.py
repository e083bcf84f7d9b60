"""Equal learners: when they start, and with which weights."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from trainer.remote.peers import Peers

ADDRESSES = ["a:1", "b:1", "c:1"]


class Line:
    """A link to another learner, whose weights come when a test says so."""

    def __init__(self, load: Callable[[list[np.ndarray], int], None]):
        self.load = load
        self.is_connected = False
        self.looks: list[Callable[[], None]] = []  # what happens when it is asked, once each

    @property
    def is_current(self) -> bool:
        """Whether its weights have come, if it has any."""
        if self.looks:
            self.looks.pop(0)()
        return self.is_connected


class Own:
    """As much of a learner as matters for the start."""

    def __init__(self) -> None:
        self.weights = [tf.Variable([1.0, 2.0])]
        self.updates = 3


def begun(rank: int, prepare: Callable[[list[Line]], Any]) -> tuple[Own, list[str], list[Line]]:
    """A learner after it has begun among others, and what it said."""
    said: list[str] = []
    lines: list[Line] = []

    def connect(address: str, load: Any) -> Any:
        lines.append(Line(load))
        return lines[-1]

    peers, own, stop = Peers(ADDRESSES, rank, connect, said.append), Own(), threading.Event()
    prepare(lines)
    timer = threading.Timer(5.0, stop.set)
    timer.start()
    peers.begin(own, stop)  # type: ignore[arg-type]
    timer.cancel()
    return own, said, lines


def test_the_first_learner_starts_once_it_knows_that_no_other_trains():
    def connected(lines: list[Line]) -> None:
        for line in lines:
            line.is_connected = True

    own, said, _ = begun(0, connected)
    assert own.updates == 3 and "all learners are there" in said[-1]


@pytest.mark.parametrize("rank", [0, 2])
def test_one_that_comes_back_takes_weights_that_come_while_it_looks(rank):
    def comes(lines: list[Line]) -> None:
        first, second = lines
        first.is_connected = True

        def there() -> None:
            second.is_connected = True
            second.load([np.array([5.0, 6.0], np.float32)], 70)

        # Between two looks at the others: it is there only with its weights.
        second.looks = [lambda: None, there]

    own, said, _ = begun(rank, comes)
    assert own.updates == 70 and "the weights after 70 updates" in said[-1]
    np.testing.assert_array_equal(own.weights[0], [5.0, 6.0])
