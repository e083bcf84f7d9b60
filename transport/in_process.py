"""Unrolls between threads of one process: a bounded queue of blocks."""

import collections
import threading
import time
from typing import Any


class Closed(Exception):
    """The queue was closed: nothing goes in or comes out any more."""


class UnrollQueue:
    """Blocks of unrolls, first in, first out, each announced before it is played.

    An actor waits for room before it plays a block and not after: it then plays with the newest
    weights. A block may be announced while fewer than ``capacity`` unrolls are
    announced or waiting; so a larger block can still pass.
    """

    def __init__(self, capacity: int):
        self._capacity = capacity
        self._blocks: collections.deque[tuple[int, Any]] = collections.deque()
        self._ahead = 0  # unrolls announced or waiting
        self._closed = False
        self._changed = threading.Condition()
        self.put_wait_s = 0.0
        self.take_wait_s = 0.0

    def announce(self, count: int) -> None:
        """Waits until there is room for ``count`` more unrolls."""
        started = time.monotonic()
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._ahead < self._capacity)
            self.put_wait_s += time.monotonic() - started
            if self._closed:
                raise Closed
            self._ahead += count

    def put(self, block: Any, count: int) -> None:
        """Adds ``count`` unrolls that were announced."""
        with self._changed:
            if self._closed:
                raise Closed
            self._blocks.append((count, block))
            self._changed.notify_all()

    def take(self, timeout_s: float | None = None) -> Any | None:
        """The oldest block; None when none came in time."""
        started = time.monotonic()
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._blocks, timeout_s)
            self.take_wait_s += time.monotonic() - started
            if self._closed:
                raise Closed
            if not self._blocks:
                return None
            count, block = self._blocks.popleft()
            self._ahead -= count
            self._changed.notify_all()
            return block

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    def check_open(self) -> None:
        """Raises ``Closed`` where the other calls would."""
        if self._closed:
            raise Closed

    def close(self) -> None:
        """Wakes all waiting threads; all calls raise ``Closed`` from now on."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
