"""Ctrl-C, SIGTERM and SIGHUP as requests to stop, which the learner obeys between two updates."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

from trainer.machine.launching import launched_together


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """In this block, Ctrl-C and SIGTERM end the process at once: there is nothing to save yet.

    Python would raise KeyboardInterrupt, which libraries swallow while they are imported.
    """
    handlers: dict[int, tuple[Any, Any]] = {
        signal.SIGINT: (signal.default_int_handler, signal.SIG_DFL),
        signal.SIGTERM: (signal.SIG_DFL, _leave),
    }
    before = {number: signal.getsignal(number) for number in handlers}
    # The parent process may have set other handlers, as nohup does.
    changed = {n: new for n, (usual, new) in handlers.items() if before[n] is usual}
    for number, handler in changed.items():
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number in changed:
            signal.signal(number, before[number])


def end_silently() -> None:
    """From now on Ctrl-C ends the process at once: all is done, and Python only winds up.

    It would print a traceback of whatever is being ended.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _leave(number: int, _: FrameType | None) -> None:
    """Ends the process as requested, with exit code 0 unless it is one of several."""
    with contextlib.suppress(OSError):
        os.write(1, f"Ended: {signal.Signals(number).name}. There was nothing to save.\n".encode())
    # mpirun ends the other learners only if one fails; otherwise they would wait for this one.
    os._exit(128 + number if launched_together() else 0)


# Slurm sends TERM to all processes of a job, systemd to all of a session that ends, and what has
# started this one passes its own on. So what one of these has in the environment:
STARTED_BY_OTHERS = ("SLURM_JOB_ID", "IMPALA_RUN", "IMPALA_SESSION")
SAME_TERM_S = 5.0


class StopSignal:
    """Remembers the first signal; a second one ends the process at once, as by default.

    In a job of Slurm, a run on hosts and the lab, TERMs shortly after the first are the same one. A
    HUP is never a second signal: shell and kernel both send one when a terminal closes, and systemd
    sends one after TERM.
    """

    def __init__(self, restores: bool = False) -> None:
        """``restores``: a second signal does what it does in the caller's program."""
        self.name = ""
        self._restores = restores
        self._before: dict[int, Any] = {}
        self._since = 0.0  # of the first TERM

    def __enter__(self) -> "StopSignal":
        if threading.current_thread() is threading.main_thread():
            numbers = [signal.SIGINT, signal.SIGTERM]
            if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup
                numbers.append(signal.SIGHUP)
            for number in numbers:
                before = signal.signal(number, self._note)
                # None: a handler that Python did not set and cannot restore
                self._before[number] = signal.SIG_DFL if before is None else before
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def of_one(self) -> "StopSignal":
        """A request to stop one of several trainings: by itself, or with all of them."""
        return _OfOne(self)

    def request(self, reason: str) -> None:
        """Requests a stop, as a signal does; the summary shows the reason."""
        self.name = self.name or reason

    def is_set(self) -> bool:
        """Whether a stop was requested."""
        return bool(self.name)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.name = signal.Signals(number).name
        if number == signal.SIGHUP:
            return
        if number == signal.SIGTERM and any(one in os.environ for one in STARTED_BY_OTHERS):
            self._since = self._since or time.monotonic()
            if time.monotonic() < self._since + SAME_TERM_S:
                return
            self._end_by_next()
            signal.raise_signal(number)
        self._end_by_next()

    def _end_by_next(self) -> None:
        for one in (signal.SIGINT, signal.SIGTERM):
            signal.signal(one, self._before[one] if self._restores else signal.SIG_DFL)


class _OfOne(StopSignal):
    def __init__(self, of_all: StopSignal) -> None:
        super().__init__()
        self._of_all = of_all

    def is_set(self) -> bool:
        self.name = self.name or self._of_all.name
        return bool(self.name)
