"""Threads have names that the system shows."""

import contextlib
import threading
import time
from pathlib import Path

from trainer.machine.threads import name_thread, threads_named


def names():
    found = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # a thread of an earlier test has just ended
            found.append((task / "comm").read_text().strip())
    return found


def started(done, *, named):
    """A thread that waits, once it has its name."""
    ready = threading.Event()

    def wait():
        if named:
            name_thread(named)
        ready.set()
        done.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    ready.wait()
    return thread


def test_a_thread_has_the_name_it_was_given():
    done = threading.Event()
    thread = started(done, named="actor 11, of very many")
    assert "actor 11, of ve" in names()
    done.set()
    thread.join()


def test_threads_that_a_library_starts_inherit_a_name():
    done, own = threading.Event(), Path(f"/proc/self/task/{threading.get_native_id()}/comm")
    before = own.read_text()
    with threads_named("inherited"):
        thread = started(done, named="")
    assert own.read_text() == before
    assert names().count("inherited") == 1
    done.set()
    thread.join()
    # The system's thread ends a moment after Python's.
    until = time.monotonic() + 60
    while "inherited" in names():
        assert time.monotonic() < until
        time.sleep(0.01)
