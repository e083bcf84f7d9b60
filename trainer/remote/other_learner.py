"""One of the other learners, with which a learner exchanges the gradients of their actors."""

import collections
import threading
from collections.abc import Callable

import numpy as np

from trainer.learning.batches import LOOK_EVERY_S, unrolls_in
from trainer.learning.worker import Computed
from trainer.machine.threads import name_thread
from transport import Link, Refused

# Blocks of gradients that wait for a learner; older ones are dropped if it does not take them.
MOST_WAITING = 16
# Makes a link to the learner at an address, which calls its argument with that learner's weights.
Connect = Callable[[str, Callable[[list[np.ndarray], int], None]], Link]


class OtherLearner:
    """One of the other learners: the gradients that wait for it, and its newest weights."""

    def __init__(
        self, rank: int, address: str, connect: Connect, sent: Callable[[Computed], Computed]
    ):
        """``sent`` makes of a block what is sent."""
        self.rank = rank
        self.address = address
        self._sent = sent
        self._left_out = 0
        self._link = connect(address, self._load)
        self._waiting: collections.deque[Computed] = collections.deque()
        self._weights: tuple[list[np.ndarray], int] | None = None
        self._is_new = False
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._work, name=f"to {address}", daemon=True)

    def start(self) -> None:
        """Connects, as soon as the learner is there."""
        self._link.__enter__()
        self._thread.start()

    def close(self) -> None:
        """Ends the connection."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join()
            self._link.__exit__()

    def hangs(self) -> bool:
        """Whether, after ``close``, a call to it has not ended yet."""
        return self._link.hangs

    def is_reached(self) -> bool:
        """Whether there is a connection now."""
        return self._link.is_connected

    def is_current(self) -> bool:
        """Whether it is there, and its weights are, if it has started."""
        return self._link.is_current

    def is_finished(self) -> bool:
        """Whether it has said that it trains no more, and has not come back since."""
        return self._link.is_finished

    @property
    def dropped(self) -> int:
        """Blocks that waited too long, or that it has refused."""
        return self._left_out + self._link.dropped

    def refusal(self) -> Refused | None:
        """Why it and this learner cannot train together, as they are now."""
        return self._link.refusal

    def weights(self) -> tuple[list[np.ndarray], int] | None:
        """Its newest weights, and their number of updates; None if it has not started."""
        return self._weights

    def take_new(self) -> list[np.ndarray] | None:
        """Weights that have come since the last call."""
        with self._changed:
            is_new, self._is_new = self._is_new, False
            return self._weights[0] if is_new and self._weights else None

    def send(self, block: Computed) -> None:
        """Sends a block, or drops the oldest one if too many wait; nothing to one that is done."""
        with self._changed:
            if self._closing or self.is_finished():
                return
            if len(self._waiting) >= MOST_WAITING:
                self._waiting.popleft()
                self._left_out += 1
            self._waiting.append(block)
            self._changed.notify_all()

    def _load(self, weights: list[np.ndarray], version: int) -> None:
        with self._changed:
            self._weights, self._is_new = (weights, version), True

    def _work(self) -> None:
        name_thread("to a learner")
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closing or self._waiting)
            is_open = not self._closing and self._link.announce(LOOK_EVERY_S)
            with self._changed:
                if self._closing:
                    return
                if self.is_finished():
                    self._waiting.clear()  # they would be old if it came back
                if not is_open or not self._waiting:
                    continue
                block = self._waiting.popleft()
            self._link.put(self._sent(block), unrolls_in(block.unrolls))
