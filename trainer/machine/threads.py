"""Names of threads as the system shows them, in ``top -H`` and in the benchmarks' profile."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

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


def _name_file() -> Path:
    return Path(f"/proc/self/task/{threading.get_native_id()}/comm")
