"""An actor's end of a transport: it connects to its learner, and reconnects whenever it is lost.

Three threads of its own keep the actor free to play: one connects, announces the actor and asks for
newer weights; one fetches these, which may take longer than an answer; one sends blocks.
"""

import contextlib
import functools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from transport import messages
from transport.asking import Limit, Pauses, Waiting
from transport.connection import Connection, Process
from transport.in_process import Closed
from transport.layout import Layout, arrays_layout
from transport.messages import FINISHED, Identity, Lost, Refused, Silent, Stranger
from transport.telling import TRIES_BEFORE_A_LINE, Telling
from transport.this_end import ThisEnd

# Retries are cheap, and an actor that waits longer may miss the start of its learner.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 1.0
LEAVE_WITHIN_S = 2.0


class Link:
    """Carries one actor's blocks to its learner, and the learner's weights back.

    ``announce`` and ``put`` are used as those of ``UnrollQueue``. ``Closed`` means that the
    learner needs no more; ``Refused`` that its settings differ. Between learners, neither ends the
    other: ``refusal`` names such a mistake, and a block is dropped; one that has finished
    (``is_finished``) is left. In both cases the link tries further: the learner may come back.
    """

    def __init__(
        self,
        connect: Callable[[], Connection],
        learner: str,
        name: str,
        identity: Identity,
        blocks: Layout,
        *,
        timeout_s: float,
        ask_every_s: float | None = None,
        fetch_every_s: float = 0.0,
        load: Callable[[list[np.ndarray], int], None],
        say: Callable[[str], None],
        of_learner: bool = False,
    ):
        """
        Args:
            connect: makes a connection, or raises ``Lost``.
            learner, name: the names of both in messages.
            identity: what learner and actor must have in common, or both learners.
            blocks: the layout of blocks.
            timeout_s: seconds of silence after which the learner counts as gone.
            ask_every_s: longest time between questions for newer weights while there is no block
                to send, for an actor that waits for them; None to ask as seldom as possible.
            fetch_every_s: seconds between two fetches of weights, at least.
            load: installs new weights; called from a thread.
            say: prints a message for the user.
            of_learner: this end is a learner, too, and counts as no actor.
        """
        self._connect = connect
        self._this_end = ThisEnd(name, identity, of_learner)
        self._telling = Telling(say, learner, timeout_s, of_learner)
        self._blocks = blocks
        self._pauses = Pauses(timeout_s / messages.BEATS_PER_TIMEOUT, ask_every_s)
        self._in_step = ask_every_s is not None
        self._fetch_every_s = fetch_every_s
        self._limit = Limit(timeout_s)  # of a fetch of weights
        self._load = load
        self._of_learner = of_learner
        self._changed = threading.Condition()
        self._connection: Connection | None = None
        self._failure: Exception = Lost("it no longer answers")  # why another thread gave it up
        self._process = Process()  # which it leads to, or has led to
        self._block: tuple[np.ndarray, np.ndarray] | None = None  # to be sent, with its header
        self._number = 0
        self._announced = ""  # the learner's process whose weights were there last
        self._only_for = ""  # the only process that may get the block; empty: any
        self._waiting = Waiting()
        self._closing = False
        self.dropped = 0  # blocks that another learner has refused
        self._refusal: Refused | None = None
        self._end: Exception | None = None
        self._threads = [
            threading.Thread(target=self._guarded, args=(work,), name=work.__name__, daemon=True)
            for work in (self._keep, self._fetch, self._send)
        ]

    def __enter__(self) -> "Link":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leaves the learner."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        until = time.monotonic() + LEAVE_WITHIN_S
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    @property
    def hangs(self) -> bool:
        """Whether, after the ``with`` block, a call to a silent learner has not ended yet."""
        return any(thread.is_alive() for thread in self._threads)

    @property
    def learner_process(self) -> str:
        """Identifies the process of the learner whose weights were announced; empty at first."""
        return self._announced

    @property
    def is_connected(self) -> bool:
        """Whether the learner is there."""
        return self._connection is not None

    @property
    def is_current(self) -> bool:
        """Whether the learner is there, and the weights have come that it had, if it had any."""
        return self._connection is not None and self._process.is_current

    @property
    def is_finished(self) -> bool:
        """Whether the learner has said that it needs no more, and has not come back since."""
        return self._process.has_finished

    @property
    def refusal(self) -> Refused | None:
        """Why the last try to connect was in vain, where only somebody can change that."""
        return self._refusal

    def announce(self, timeout_s: float) -> bool:
        """Waits for weights and for room for the next block; returns False on a timeout."""
        started = time.monotonic()
        with self._changed:
            ready = self._changed.wait_for(lambda: self._end or self._has_room(), timeout_s)
            self._waiting.add(time.monotonic() - started)
            if self._end:
                raise self._end
            if ready:
                self._announced = self._process.id
            return bool(ready)

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Counts the time inside as waiting for the learner."""
        started = time.monotonic()
        yield
        with self._changed:
            self._waiting.add(time.monotonic() - started)

    def put(self, block: Any, count: int) -> None:
        """Sends ``count`` unrolls that were announced.

        In step, and between learners, they are for the process of the learner that was there then:
        to another one, which may count other weights by the same number, they would seem to be of
        its own.
        """
        process = self._process
        if too_many := messages.too_many(count, process.most, process.largest):
            self._drop(self._telling.refused(too_many))
            return
        packed = self._blocks.pack(block, count)
        now = time.monotonic()
        with self._changed:
            self._number += 1
            waited = self._waiting.take(now)
            self._block = self._this_end.header(self._number, count, waited).pack(), packed
            self._only_for = self._announced if self._in_step or self._of_learner else ""
            self._changed.notify_all()

    def _has_room(self) -> bool:
        process = self._process
        # A gradient is made for weights of now: it does not wait until another learner is back.
        is_there = self._connection is not None or not self._of_learner
        return (
            is_there and self._block is None and process.version >= 0 and not process.has_finished
        )

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # raised in the actor's own thread
            with self._changed:
                self._end = self._end or error
                self._changed.notify_all()

    # Thread 1: the connection.

    def _keep(self) -> None:
        pause = FIRST_PAUSE_S
        while not self._closing:
            try:
                connection = self._connect()
                self._introduce(connection)
                pause = FIRST_PAUSE_S
                self._stay(connection)
            except (Lost, Silent, Closed, Refused) as error:
                self._refusal = self._refused(error)
                if self._refusal and not self._of_learner:
                    raise self._refusal from None
                self._lose(error)
                with self._changed:
                    self._changed.wait_for(lambda: self._closing, pause)
                pause = min(2 * pause, LONGEST_PAUSE_S)

    def _refused(self, error: Exception) -> Refused | None:
        """The failure, if another try would most likely fail in the same way."""
        # Once it was the learner that answered there, whoever does now may be in its way only.
        if isinstance(error, Stranger) and not self._process.id:
            return Refused(f"refused the learner at {self._telling.learner}: {error}.")
        return error if isinstance(error, Refused) else None

    def _introduce(self, connection: Connection) -> None:
        about = messages.decode(connection.about())
        if "identity" not in about:
            raise Lost("it is starting")
        if self.is_finished and about["process"] == self._process.id:
            connection.close()  # without a hello, so that it need not wait for this end to leave
            raise Lost("it has finished")
        connection.write(self._this_end.hello())
        differing = self._this_end.differences(about)
        if differing:
            connection.close()
            raise self._telling.refused(differing)
        with self._changed:
            self._refusal = None
            self._process = Process(
                str(about["process"]),
                arrays_layout(about["weights"]),
                about.get("most"),
                about.get("largest"),
            )
            self._connection = connection
            self._changed.notify_all()
        self._telling.connected()

    def _stay(self, connection: Connection) -> None:
        """Says that this end is there, and asks for weights, until the connection fails."""
        process = self._process
        while not self._is_to_leave():
            self._note(process, connection.write(self._this_end.letter("beat")))
            with self._changed:
                # Before the learner's first weights, an actor has nothing else to do.
                pause = 0.1 if self._process.version < 0 else self._pauses.next()
                self._changed.wait_for(functools.partial(self._is_due, connection, pause), pause)
                if self._connection is not connection:
                    raise self._failure
        connection.write(self._this_end.letter("bye"))
        with self._changed:
            self._connection = None
        connection.close()

    def _is_to_leave(self) -> bool:
        # An actor stays until it is closed, to leave with all else that it does at its end.
        return self._closing or (self._of_learner and self.is_finished)

    def _is_due(self, connection: Connection, pause: float) -> bool:
        """Whether to end a pause early."""
        return (
            self._is_to_leave()
            or self._connection is not connection
            or (self._process.version >= 0 and self._pauses.have_begun_anew(pause))
        )

    def _note(self, process: Process, newest: int) -> None:
        with self._changed:
            process.newest = newest
            process.is_current |= newest <= process.version
            if newest == FINISHED:
                process.has_finished = True
                if process is self._process and not self._of_learner:
                    self._end = self._end or Closed()
            self._changed.notify_all()

    def _lose(self, error: Exception) -> None:
        with self._changed:
            self._connection = None
            self._changed.notify_all()
        if not self._closing:
            self._telling.waits(error)

    # Thread 2: weights.

    def _fetch(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closing or self._may_fetch())
                if self._closing or self._connection is None:
                    return
                connection, process = self._connection, self._process
            if process.late_weights == 1:  # and the learner has answered since
                assert process.weights is not None
                self._telling.late(process.weights.size())
            try:
                packed, version = connection.weights(self._limit.seconds)
            except Silent:
                self._limit.grow()
                process.late_weights += 1
                process.newest = -1  # until the learner shows that it is there
            except (Lost, Closed, Refused) as error:
                self._give_up(connection, error)
            else:
                self._install(process, packed, version)

    def _may_fetch(self) -> bool:
        process = self._process
        is_newer = process.newest > process.version and time.monotonic() >= process.fetch_from
        return self._connection is not None and is_newer

    def _install(self, process: Process, packed: np.ndarray, version: int) -> None:
        """Loads weights, unless there is another connection since."""
        if process is not self._process:
            return
        if packed.nbytes:
            assert process.weights is not None
            self._load(process.weights.unpack(packed), version)
        with self._changed:
            if packed.nbytes:
                process.version = version
            else:
                process.newest = -1  # it has none yet
            process.is_current, process.late_weights = True, 0
            process.fetch_from = time.monotonic() + self._fetch_every_s
            self._changed.notify_all()

    def _give_up(self, connection: Connection, error: Exception) -> None:
        """Leaves a connection that has failed to thread 1."""
        with self._changed:
            if self._connection is connection:
                self._connection, self._failure = None, error
                self._changed.notify_all()

    # Thread 3: blocks.

    def _send(self) -> None:
        tries = 0  # of this block that the learner has not taken in time
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closing or (self._block and self._connection))
                if self._closing or self._block is None or self._connection is None:
                    return
                connection, process = self._connection, self._process
                header, block = self._block
                if self._only_for not in ("", process.id):
                    self._done()
                    continue
                # It may receive the block and train on it before it ends.
                self._only_for = process.id
            try:
                self._note(process, connection.put(header, block))
            except Silent:
                # The other thread checks whether the learner is there.
                tries += 1
                if tries == TRIES_BEFORE_A_LINE:
                    self._telling.not_taken(block.nbytes)
                continue
            except Refused as refused:
                self._drop(refused)
            except (Lost, Closed) as error:
                self._give_up(connection, error)
                continue
            tries = 0
            with self._changed:
                self._done()

    def _drop(self, refused: Refused) -> None:
        """What comes of a block that the learner refuses: only an actor ends."""
        if not self._of_learner:
            raise refused
        self.dropped += 1
        if not self._process.has_refused:
            self._process.has_refused = True
            self._telling.dropped(refused)

    def _done(self) -> None:
        self._block = None
        self._pauses.begin_anew()  # its actor waits for what the block changes
        self._changed.notify_all()
