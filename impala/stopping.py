"""Ctrl-C and SIGTERM as a wish to stop, which the learner grants between two updates."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any


@contextlib.contextmanager
def ended_by_interrupts() -> Iterator[None]:
    """Meanwhile Ctrl-C ends the process at once, as there is nothing to save yet.

    Python would raise KeyboardInterrupt, which libraries swallow while they are imported.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class StopSignal:
    """Remembers the first signal; a second one ends the process at once, as it would anywhere."""

    def __init__(self) -> None:
        self.name = ""
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopSignal":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def is_set(self) -> bool:
        """Whether a stop was asked for."""
        return bool(self.name)

    def _note(self, number: int, _: FrameType | None) -> None:
        self.name = signal.Signals(number).name
        for one in (signal.SIGINT, signal.SIGTERM):
            signal.signal(one, signal.SIG_DFL)
