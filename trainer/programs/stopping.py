"""Ctrl-C and SIGTERM as requests to stop, which the learner obeys between two updates."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

from trainer.machine.launching import launched_together


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """In this block, Ctrl-C and SIGTERM end the process at once: there is nothing to save yet.

    Python would raise KeyboardInterrupt, which libraries swallow while they are imported.
    """
    meanwhile: dict[int, tuple[Any, Any]] = {
        signal.SIGINT: (signal.default_int_handler, signal.SIG_DFL),
        signal.SIGTERM: (signal.SIG_DFL, _leave),
    }
    before = {number: signal.getsignal(number) for number in meanwhile}
    # The parent process may have set other handlers, as nohup does.
    changed = {n: new for n, (usual, new) in meanwhile.items() if before[n] is usual}
    for number, handler in changed.items():
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number in changed:
            signal.signal(number, before[number])


def _leave(number: int, _: FrameType | None) -> None:
    """Ends the process as requested, with exit code 0 unless it is one of several."""
    with contextlib.suppress(OSError):
        os.write(1, f"Ended: {signal.Signals(number).name}. There was nothing to save.\n".encode())
    # mpirun ends the other learners only if one fails; otherwise they would wait for this one.
    os._exit(128 + number if launched_together() else 0)


class StopSignal:
    """Remembers the first signal; a second one ends the process at once, as by default."""

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
        """Whether a stop was requested."""
        return bool(self.name)

    def _note(self, number: int, _: FrameType | None) -> None:
        self.name = signal.Signals(number).name
        for one in (signal.SIGINT, signal.SIGTERM):
            signal.signal(one, signal.SIG_DFL)
