"""Unrolls between threads of one process: a bounded queue of blocks, and batches cut from them."""

import collections
import threading
import time
from typing import Any


class Closed(Exception):
    """The queue was closed: nothing goes in or comes out any more."""


class UnrollQueue:
    """Blocks of unrolls, first in, first out.

    A block may enter while the queue holds fewer than ``capacity`` unrolls; so a block larger
    than that can pass, and never more than ``capacity - 1`` unrolls wait besides the newest block.
    """

    def __init__(self, capacity: int):
        self._capacity = capacity
        self._blocks: collections.deque[tuple[int, Any]] = collections.deque()
        self._held = 0
        self._closed = False
        self._changed = threading.Condition()
        self.put_wait_s = 0.0
        self.take_wait_s = 0.0

    def put(self, block: Any, count: int) -> None:
        """Adds ``count`` unrolls; blocks while the queue is full."""
        started = time.monotonic()
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._held < self._capacity)
            self.put_wait_s += time.monotonic() - started
            if self._closed:
                raise Closed
            self._blocks.append((count, block))
            self._held += count
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
            self._held -= count
            self._changed.notify_all()
            return block

    def check_open(self) -> None:
        """Raises ``Closed`` where ``put`` and ``take`` would."""
        if self._closed:
            raise Closed

    def close(self) -> None:
        """Wakes everyone who waits; ``put`` and ``take`` raise ``Closed`` from now on."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
