"""The exchange between actors' calls, each in its own thread, and the learner's receiver."""

import collections
import threading

import numpy as np

from transport.in_process import Closed
from transport.messages import FINISHED
from transport.secure.calls import VERSION, Opening, cut

# How many letters from actors may wait to be read.
LETTERS = 256


class Desk:
    """Blocks and letters from actors, weights for them. All waits are bounded or end on close."""

    def __init__(self) -> None:
        self.about = b"{}"  # until the first announcement
        self.version = 0  # of the weights
        self.weights: tuple[bytes, ...] = ()  # an opening and pieces; made once for all actors
        self._blocks: collections.deque[tuple[np.ndarray, np.ndarray]] = collections.deque()
        self._letters: collections.deque[bytes] = collections.deque()
        self._closed = False
        self._changed = threading.Condition()
        self.publish(np.zeros([0], np.uint8), 0)

    def publish(self, weights: np.ndarray, version: int) -> None:
        """Offers packed weights; ``FINISHED`` as their version ends all waits for room."""
        if version != FINISHED:
            opening = Opening(weights.nbytes, VERSION.pack(version))
            self.weights = (opening.pack(), *cut(weights))
        with self._changed:
            self.version = version
            self._changed.notify_all()

    def put(self, header: np.ndarray, block: np.ndarray, wait_s: float) -> bool:
        """Whether the block was taken in time; if not, it is dropped."""
        mine = (header, block)
        with self._changed:
            self._blocks.append(mine)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._is_over() or not self._waits(mine), wait_s)
            waits = self._waits(mine)
            if waits:
                self._blocks = collections.deque(one for one in self._blocks if one is not mine)
            if self._closed:
                raise Closed
            return not waits or self._is_over()

    def receive(self) -> tuple[np.ndarray, np.ndarray]:
        """The block that has waited longest, with its header; waits for one."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._blocks)
            if self._closed:
                raise Closed
            taken = self._blocks.popleft()
            self._changed.notify_all()
            return taken

    def tell(self, letter: bytes, wait_s: float) -> bool:
        """Whether there was room for a letter in time."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._letters) < LETTERS, wait_s)
            if self._closed:
                raise Closed
            if len(self._letters) >= LETTERS:
                return False
            self._letters.append(letter)
            self._changed.notify_all()
            return True

    def hear(self, timeout_s: float) -> bytes | None:
        """The next letter; None when none came in time."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._letters, timeout_s)
            if self._closed:
                raise Closed
            if not self._letters:
                return None
            self._changed.notify_all()
            return self._letters.popleft()

    def close(self) -> None:
        """Wakes all waiting threads; all waiting calls raise ``Closed`` from now on."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _is_over(self) -> bool:
        return self._closed or self.version == FINISHED

    def _waits(self, mine: tuple[np.ndarray, np.ndarray]) -> bool:
        return any(one is mine for one in self._blocks)
