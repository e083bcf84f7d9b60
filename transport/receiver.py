"""The learner's end of a transport: blocks arrive in a queue of its own, weights go out."""

import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from transport import messages
from transport.in_process import Closed, UnrollQueue
from transport.layout import Layout, Misfit
from transport.messages import FINISHED, Header, Identity, Lost, Silent
from transport.roster import Roster

HEAR_EVERY_S = 0.5


class Server(Protocol):
    """What carries blocks, letters and weights: ``transport.distributed`` or ``.secure``."""

    def announce(self, about: bytes) -> None: ...
    def publish(self, weights: np.ndarray, version: int) -> None: ...
    def receive(self) -> tuple[np.ndarray, np.ndarray]: ...
    def hear(self, timeout_s: float) -> bytes | None: ...
    def close(self) -> None: ...


class Receiver:
    """Takes blocks of one layout from any number of actors.

    At most ``capacity`` unrolls wait, plus one block; beyond that, actors have to wait.
    """

    def __init__(
        self,
        server: Server,
        identity: Identity,
        blocks: Layout,
        weights: Layout,
        *,
        capacity: int,
        timeout_s: float,
        say: Callable[[str], None],
        arrived: Callable[[Any], Any] = lambda block: block,
        most_unrolls: int | None = None,
        of_learners: Identity | None = None,
    ):
        """``arrived`` gets each block as it arrives, and returns what is to wait instead of it.

        Actors whose blocks have more than ``most_unrolls`` are refused. Other learners must have
        the identity ``of_learners``; None: that of actors.
        """
        self._server = server
        self._arrived = arrived
        self._most_unrolls = most_unrolls
        self._blocks = blocks
        self._weights = weights
        self._queue = UnrollQueue(capacity)
        self._timeout_s = timeout_s
        self._say = say
        self._roster = Roster(identity, timeout_s, say, of_learners)
        self._error: Exception | None = None
        self._newest: tuple[Sequence[Any], int] | None = None
        self._changed = threading.Condition()
        self._closing = False
        about = {"process": uuid.uuid4().hex, "weights": weights.describe()}
        limits = {"most": most_unrolls, "largest": blocks.most}
        identities = {"identity": identity, "of_learners": of_learners or identity}
        server.announce(messages.encode({**identities, **about, **limits}))
        self._threads = [
            threading.Thread(target=self._guarded, args=(work,), name=work.__name__, daemon=True)
            for work in (self._receive, self._hear, self._publish)
        ]

    def __enter__(self) -> "Receiver":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_publishing()
        self._queue.close()
        try:
            self._server.close()
        except (Closed, Lost, Silent):
            return  # the threads may never end, so nothing waits for them
        for thread in self._threads:
            thread.join()

    def take(self, timeout_s: float) -> Any | None:
        """The oldest block; None when none came in time."""
        try:
            return self._queue.take(timeout_s)
        except Closed:
            raise self._error or Closed from None

    def publish(self, weights: Sequence[Any], version: int) -> None:
        """Offers these weights to actors; versions are skipped while one is being published."""
        with self._changed:
            self._newest = weights, version
            self._changed.notify_all()

    def finish(self) -> None:
        """Reports to actors that training is done, and gives them time to leave."""
        self._stop_publishing()
        try:
            self._server.publish(np.zeros([0], np.uint8), FINISHED)
        except (Closed, Lost, Silent) as error:  # what was learned is safe
            self._say(f"warning: actors could not be told of the end ({str(error) or 'closed'}).")
        self._queue.close()
        # An actor that waits for room hears of it at its next beat, or a late one.
        until = time.monotonic() + self._timeout_s
        while not self._roster.is_empty and time.monotonic() < until:
            time.sleep(0.05)

    def present(self) -> int:
        """How many actors are there."""
        return self._roster.present

    def waited_s(self) -> float:
        """Seconds that an actor has waited for the learner, on average."""
        return self._roster.waited_s()

    def mean_actors(self) -> float:
        """How many actors were there, on average since the first one came."""
        return self._roster.mean_present()

    def _stop_publishing(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._threads[-1].join()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # raised by ``take``
            if not self._closing:
                self._error = self._error or error
                self._queue.close()

    def _receive(self) -> None:
        while True:
            packed, payload = self._server.receive()
            header = Header.unpack(packed)
            if not self._roster.accepts(header):
                continue
            assert header is not None
            limits = self._most_unrolls, self._blocks.most
            if too_many := messages.too_many(header.unrolls, *limits):
                self._roster.refuse(header, too_many)
                continue
            try:
                block = self._arrived(self._blocks.unpack(payload, header.unrolls))
            except Misfit as misfit:
                self._roster.refuse(header, str(misfit))
                continue
            self._queue.announce(header.unrolls)
            self._queue.put(block, header.unrolls)

    def _hear(self) -> None:
        last = time.monotonic()
        while True:
            letter = self._server.hear(HEAR_EVERY_S)
            if letter is not None:
                self._roster.hear(messages.decode(letter))
            now = time.monotonic()
            # If this process itself was paused, the actors were not silent.
            self._roster.pass_time(min(now - last, 2 * HEAR_EVERY_S))
            last = now

    def _publish(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closing or self._newest)
                if self._closing or self._newest is None:
                    return
                (weights, version), self._newest = self._newest, None
            self._server.publish(self._weights.pack(list(weights)), version)
