"""Equal learners: when they start, and with which weights."""

import threading
from argparse import Namespace
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.trainer.levels import Steps, level
from tests.trainer.training import block, parts, small
from tests.transport.ends import eventually
from trainer.learning.worker import OF_ACTOR, Computed, GradientBatches, lean
from trainer.remote import peers as peers_module
from trainer.remote.peers import Peers
from transport import Refused
from user_error import UserError

ADDRESSES = ["a:1", "b:1", "c:1"]


class Line:
    """A link to another learner, whose weights come when a test says so."""

    def __init__(self, load: Callable[[list[np.ndarray], int], None]):
        self.load = load
        self.sent: list[Computed] = []
        self.is_open = threading.Event()
        self.is_connected = self.is_finished = False
        self.refusal: Refused | None = None
        self.looks: list[Callable[[], None]] = []  # what happens when it is asked, once each

    @property
    def is_current(self) -> bool:
        """Whether its weights have come, if it has any."""
        if self.looks:
            self.looks.pop(0)()
        return self.is_connected

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass

    def announce(self, timeout_s: float) -> bool:
        """Whether there is room for a block."""
        return self.is_open.wait(timeout_s)

    def put(self, block: Computed, count: int) -> None:
        """Sends a block."""
        self.sent.append(block)


class Own:
    """As much of a learner as matters to the others."""

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

    own, stop = Own(), threading.Event()
    peers = Peers(own, ADDRESSES, rank, connect, said.append)  # type: ignore[arg-type]
    prepare(lines)
    timer = threading.Timer(5.0, stop.set)
    timer.start()
    try:
        peers.begin(stop)
    finally:
        timer.cancel()
    assert not stop.is_set()
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


@pytest.mark.parametrize("rank", [0, 2])
def test_one_that_comes_back_when_all_others_have_finished_ends(rank):
    def finishing(lines: list[Line]) -> None:
        for line in lines:
            line.is_connected = line.is_finished = True

    with pytest.raises(UserError, match="all others have finished, so this learner ends") as told:
        begun(rank, finishing)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("rank", [0, 2])
def test_others_that_come_later_are_waited_for_and_named_once(rank, monkeypatch):
    def late(lines: list[Line]) -> None:
        lines[0].is_connected = True  # it waits, too

        def there() -> None:
            lines[1].is_connected = True
            if rank:
                lines[1].load([np.array([5.0, 6.0], np.float32)], 70)

        threading.Timer(1.5, there).start()

    monkeypatch.setattr(peers_module, "LINE_AFTER_S", 0.3)
    own, said, _ = begun(rank, late)
    assert own.updates == (70 if rank else 3)
    away = ADDRESSES[1 if rank == 2 else 2]
    assert [line.split(" could not be reached")[0] for line in said[1:-1]] == [away]


@pytest.mark.parametrize("finished", [0, 1])
def test_the_first_that_is_left_gives_the_start_when_one_has_finished(finished):
    def one_is_left(lines: list[Line]) -> None:
        for line in lines:
            line.is_connected = True
        lines[finished].is_finished = True

    rank = 1 if finished == 0 else 0
    own, said, _ = begun(rank, one_is_left)
    assert own.updates == 3 and "all learners are there" in said[-1]


@pytest.mark.parametrize("rank", [0, 2])
def test_other_settings_end_a_learner_before_it_begins_and_not_later(rank):
    def refused(lines: list[Line]) -> None:
        lines[1].refusal = Refused("the learner at c:1 refuses this learner: level is B there.")

    with pytest.raises(UserError, match="refuses this learner: level is B there"):
        begun(rank, refused)

    lines: list[Line] = []

    def connect(address: str, load: Any) -> Any:
        lines.append(Line(load))
        return lines[-1]

    own: Any = Own()
    peers = Peers(own, ADDRESSES, rank, connect, print)
    refused(lines)
    peers.offer(own, 0)


def test_one_that_has_finished_does_not_hide_another_that_trains():
    def ending(lines: list[Line]) -> None:
        lines[0].is_connected = lines[0].is_finished = True

        def there() -> None:
            lines[1].is_connected = True
            lines[1].load([np.array([5.0, 6.0], np.float32)], 70)

        threading.Timer(0.5, there).start()

    own, *_ = begun(2, ending)
    assert own.updates == 70


def test_gradients_are_as_old_as_they_were_at_their_learner_and_have_become_since():
    lines: list[Line] = []

    def connect(address: str, load: Any) -> Any:
        lines.append(Line(load))
        return lines[-1]

    sender, receiver = Own(), Own()
    made = parts(small(level(Steps), algorithm="a3c"))
    unrolls = lean(block(made.settings))._replace(weights_version=np.full(3, 10, np.float32))
    contribution, samples = made.learner.contribution(None)
    computed = Computed(unrolls, contribution, samples, OF_ACTOR)
    others: Any = sender, receiver
    with Peers(others[0], ADDRESSES, 1, connect, print) as peers:
        sender.updates = 12
        peers.forward(computed)
        sender.updates = 14  # while they wait to be sent
        for line in lines:
            line.is_open.set()
        eventually(lambda: all(line.sent for line in lines))
    [came], [_] = (line.sent for line in lines)
    assert int(came.origin) == 1
    there = Peers(others[1], ADDRESSES, 0, connect, print)
    receiver.updates = 100
    arrived = there.arrived(came)
    receiver.updates = 103
    batch = GradientBatches().next(lambda: arrived)
    assert batch is not None and receiver.updates - batch.weights_version == 4 + 3
    # Those of its own actors keep the version that they have.
    assert there.arrived(computed) is computed


@pytest.mark.parametrize("origin", [0, 2])
def test_gradients_of_others_are_not_passed_on(origin):
    lines: list[Line] = []

    def connect(address: str, load: Any) -> Any:
        lines.append(Line(load))
        lines[-1].is_open.set()
        return lines[-1]

    own: Any = Own()
    computed: Any = Namespace(origin=np.array(origin, np.int32))
    with Peers(own, ADDRESSES, 1, connect, print) as peers:
        peers.forward(computed)
    assert not any(line.sent for line in lines)
