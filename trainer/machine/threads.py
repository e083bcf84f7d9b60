"""Names of threads as the system shows them, in ``top -H`` and to the benchmarks' profile."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

LONGEST = 15  # letters that Linux keeps


def name_thread(name: str) -> None:
    """Names the calling thread; those that it starts from now on are born with the same name."""
    with contextlib.suppress(OSError):  # not Linux
        _own_name().write_text(name[:LONGEST])


@contextlib.contextmanager
def threads_named(name: str) -> Iterator[None]:
    """Gives this name to the threads that a library starts meanwhile."""
    before = ""
    with contextlib.suppress(OSError):
        before = _own_name().read_text().rstrip("\n")
    name_thread(name)
    try:
        yield
    finally:
        name_thread(before)


def _own_name() -> Path:
    return Path(f"/proc/self/task/{threading.get_native_id()}/comm")
