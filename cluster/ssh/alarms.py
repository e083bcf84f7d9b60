"""Time limits for waits that have none of their own, however many, in one thread."""

import contextlib
import heapq
import itertools
import threading
import time
from collections.abc import Callable, Iterator


class Alarms:
    """Calls what is due, unless the work is done before."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Callable[[], None], threading.Event]] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def within(self, seconds: float, give_up: Callable[[], None]) -> Iterator[threading.Event]:
        """``give_up`` is called if what is inside takes longer; the event says whether it was."""
        late, over = threading.Event(), threading.Event()

        def ring() -> None:
            late.set()
            # Closing a connection may take a moment, during which others may be due.
            threading.Thread(target=give_up, daemon=True).start()

        with self._changed:
            due = time.monotonic() + seconds
            heapq.heappush(self._due, (due, next(self._numbers), ring, over))
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, daemon=True)
                self._thread.start()
            self._changed.notify()
        try:
            yield late
        finally:
            over.set()

    def _watch(self) -> None:
        while True:
            with self._changed:
                while self._due and self._due[0][3].is_set():
                    heapq.heappop(self._due)
                seconds = self._due[0][0] - time.monotonic() if self._due else None
                if seconds is None or seconds > 0:
                    self._changed.wait(seconds)
                    continue
                _, _, ring, over = heapq.heappop(self._due)
            if not over.is_set():
                ring()
