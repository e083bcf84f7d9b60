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
from trainer.programs.learner_process import _begin_among
from trainer.programs.stopping import StopSignal
from trainer.remote import peers as peers_module
from trainer.remote.other_learner import MOST_WAITING
from trainer.remote.peers import Peers
from trainer.reporting.metrics import Meter
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
        self.dropped = 0  # blocks that it has refused
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

    def __init__(self, updates: int = 3) -> None:
        self.weights = [tf.Variable([1.0, 2.0])]
        self.updates = updates


def begun(
    rank: int, prepare: Callable[[list[Line]], Any], updates: int = 3
) -> tuple[Own, list[str], list[Line]]:
    """A learner after it has begun among others, and what it said."""
    said: list[str] = []
    lines: list[Line] = []

    def connect(address: str, load: Any) -> Any:
        lines.append(Line(load))
        return lines[-1]

    own, stop = Own(updates), threading.Event()
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


def test_what_was_learned_is_not_given_up_for_one_that_began_anew():
    def anew(lines: list[Line]) -> None:
        for line in lines:
            line.is_connected = True
        lines[0].load([np.array([5.0, 6.0], np.float32)], 12)

    with pytest.raises(UserError, match="a:1 trains with weights after 12 updates") as told:
        begun(1, anew, updates=5_000)
    assert "has made 5,000, which would be lost" in str(told.value) and "\n" not in str(told.value)


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

    monkeypatch.setattr(peers_module, "PATIENCE_S", 0.3)
    own, said, _ = begun(rank, late, updates=0)
    assert own.updates == (70 if rank else 0)
    away = ADDRESSES[1 if rank == 2 else 2]
    assert [line.split(" could not be reached")[0] for line in said[1:-1]] == [away]


@pytest.mark.parametrize("rank", [0, 2])
def test_one_that_comes_back_when_others_have_gone_goes_on_without_them(rank, monkeypatch):
    monkeypatch.setattr(peers_module, "PATIENCE_S", 0.3)
    own, said, _ = begun(rank, lambda lines: None)
    assert own.updates == 3
    away = ", ".join(one for one in ADDRESSES if one != ADDRESSES[rank])
    [line] = said[1:]
    assert line.startswith(f"{away} could not be reached")
    assert "goes on without, after its 3 updates" in line


class Clock:
    """Stands in for ``time``: it passes while somebody sleeps, and at a time something happens."""

    def __init__(self, at: float, happens: Callable[[], None]):
        self.now, self._at, self._happens = 0.0, at, happens

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        before, self.now = self.now, self.now + seconds
        if before < self._at <= self.now:
            self._happens()


@pytest.mark.parametrize(("share", "updates"), [(1.9, 70), (2.1, 3)])
def test_of_several_that_come_back_the_first_goes_on_and_the_others_take_its_weights(
    share, updates, monkeypatch
):
    """``share`` of the patience is over when the first one's weights come."""

    def first_goes_on(lines: list[Line]) -> None:
        lines[0].is_connected = True
        weights = [np.array([5.0, 6.0], np.float32)]
        clock = Clock(share * peers_module.PATIENCE_S, lambda: lines[0].load(weights, 70))
        monkeypatch.setattr(peers_module, "time", clock)

    own, *_ = begun(2, first_goes_on)
    assert own.updates == updates


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


def gradients(version: int) -> Computed:
    """Those of an actor that has played with the weights of this version."""
    made = parts(small(level(Steps), algorithm="a3c"))
    versions = np.full(3, version, np.float32)
    unrolls = lean(block(made.settings))._replace(weights_version=versions)
    contribution, samples = made.learner.contribution(None)
    return Computed(unrolls, contribution, samples, OF_ACTOR)


def test_one_that_has_finished_gets_gradients_again_when_it_is_back():
    lines: list[Line] = []

    def connect(address: str, load: Any) -> Any:
        lines.append(Line(load))
        lines[-1].is_open.set()
        return lines[-1]

    own: Any = Own(updates=3)
    played = gradients(1)
    first, second, third = (
        peers_module._of_version(played, np.full(3, version, np.float32)) for version in (1, 2, 3)
    )
    with Peers(own, ADDRESSES, 1, connect, print) as peers:
        other = lines[0]
        other.is_open.clear()
        peers.forward(first)  # waits, and would be old later
        other.is_finished = True
        peers.forward(second)
        eventually(lambda: not peers._others[0]._waiting)
        other.is_finished = False
        other.is_open.set()
        peers.forward(third)
        eventually(lambda: other.sent and len(lines[1].sent) == 3)
    versions = [own.updates - float(one.unrolls.weights_version[0]) for one in other.sent]
    assert versions == [3.0] and peers.figures()["gradients_not_sent"] == 0


def test_gradients_are_as_old_as_they_were_at_their_learner_and_have_become_since():
    lines: list[Line] = []

    def connect(address: str, load: Any) -> Any:
        lines.append(Line(load))
        return lines[-1]

    sender, receiver, computed = Own(), Own(), gradients(10)
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


def test_gradients_that_others_did_not_get_are_counted_also_those_they_refused():
    lines: list[Line] = []

    def connect(address: str, load: Any) -> Any:
        lines.append(Line(load))
        return lines[-1]

    own: Any = Own()
    computed: Any = Namespace(origin=OF_ACTOR)
    peers = Peers(own, ADDRESSES, 1, connect, print)
    for _ in range(MOST_WAITING + 3):  # nobody takes any yet
        peers.forward(computed)
    lines[0].dropped = 5
    assert peers.figures()["gradients_not_sent"] == 2 * 3 + 5


def test_what_others_have_played_counts_by_the_environments_of_an_actor():
    chosen = small(level(Steps), algorithm="a3c", batch_size=3, envs_per_actor=5, unroll_length=6)
    own: Any = Own(updates=3)
    meter = Meter(chosen.level.levels, 4, {})
    peers: Any = Namespace(begin=lambda stop: setattr(own, "updates", 13))
    _begin_among(peers, chosen, own, meter, StopSignal())
    assert meter.agent_steps == 10 * 5 * 6 and meter.environment_frames == 4 * meter.agent_steps
