"""Threads: their names as the system shows them (``top -H``, benchmarks), and waiting for them."""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from trainer.machine.terminal import end_output

# An environment may take minutes to start or to reset; one that hangs must not keep the process.
END_WITHIN_S = 300.0
LONGEST = 15  # characters that Linux keeps


def name_thread(name: str) -> None:
    """Names the calling thread; threads that it starts from now on inherit the name."""
    with contextlib.suppress(OSError):  # not Linux
        _name_file().write_text(name[:LONGEST])


@contextlib.contextmanager
def threads_named(name: str) -> Iterator[None]:
    """Gives this name to the threads that a library starts within the block."""
    before = ""
    with contextlib.suppress(OSError):
        before = _name_file().read_text().rstrip("\n")
    name_thread(name)
    try:
        yield
    finally:
        name_thread(before)


def wait_for_end(threads: Sequence[threading.Thread], say: Callable[[str], None]) -> None:
    """Waits until threads that play have ended, but not for ever."""
    until = time.monotonic() + END_WITHIN_S
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    left = [thread.name for thread in threads if thread.is_alive()]
    if left:
        say(
            f"warning: {', '.join(left)} did not end within {END_WITHIN_S:g} s; an environment "
            "may hang. The training ends without waiting any longer."
        )


def leave_if(hangs: bool) -> None:
    """Ends the process, all being done, if the thread of a call to a silent peer lives on.

    It is inside TensorFlow, and would crash the interpreter at exit.
    """
    if hangs:
        end_output()
        os._exit(0)


def _name_file() -> Path:
    return Path(f"/proc/self/task/{threading.get_native_id()}/comm")
