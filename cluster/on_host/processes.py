"""Processes by id and start time, so that a reused id is never mistaken for the recorded one."""

import errno
import os
import signal
import time
from collections.abc import Callable, Collection
from pathlib import Path

# Every process of a run has this variable in its environment, and its children inherit it.
MARK = "IMPALA_RUN"
# Those that a keeper has started also have the name under which the run knows it.
NAME = "IMPALA_PROCESS"


def boot_id() -> str:
    """The id of this boot: process ids and start times are valid only within it."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_time(pid: int) -> int | None:
    """When a process was started, in ticks since the boot; None if it is gone or a zombie."""
    try:
        fields = _stat(pid)
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def is_alive(pid: int, started: int | None) -> bool:
    """Whether the recorded process still runs; start time None: it had ended already."""
    return bool(pid) and started is not None and start_time(pid) == started


def send(pid: int, started: int, number: signal.Signals) -> bool:
    """Signals the recorded process, not a later one with its id; returns whether it existed."""
    if not hasattr(os, "pidfd_open"):  # in Pythons built on old systems
        return _send_by_id(pid, started, number)
    try:
        handle = os.pidfd_open(pid)
    except OSError as error:
        # Kernels before 5.3 have no pidfds.
        return error.errno == errno.ENOSYS and _send_by_id(pid, started, number)
    try:
        # The handle refers to the process that it was opened on; check that it is the right one.
        if start_time(pid) != started:
            return False
        signal.pidfd_send_signal(handle, number)
        return True
    except OSError:
        return False
    finally:
        os.close(handle)


def _send_by_id(pid: int, started: int, number: signal.Signals) -> bool:
    if not is_alive(pid, started):
        return False
    try:
        os.kill(pid, number)
    except OSError:
        return False
    return True


def marked(run_id: str, names: Collection[str] = ()) -> list[tuple[int, int]]:
    """Processes of this user that descend from the run, or some of its, as (id, start time)."""
    mark, called = f"{MARK}={run_id}".encode(), {f"{NAME}={name}".encode() for name in names}
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            environment = (folder / "environ").read_bytes()
        except OSError:
            continue
        variables = set(environment.split(b"\0"))
        if mark not in variables or (called and called.isdisjoint(variables)):
            continue
        started = start_time(int(folder.name))
        if started is not None:
            found.append((int(folder.name), started))
    return found


def topmost(pids: set[int]) -> set[int]:
    """The processes that do not descend from any of the others."""
    parents = _parents()

    def descends(pid: int) -> bool:
        while pid := parents.get(pid, 0):
            if pid in pids:
                return True
        return False

    return {pid for pid in pids if not descends(pid)}


def descendants(pid: int) -> set[int]:
    """Children of a process, their children, and so on; not the process itself."""
    parents = _parents()
    found: set[int] = set()
    edge = {pid}
    while edge:
        edge = {child for child, parent in parents.items() if parent in edge} - found
        found |= edge
    return found


def _parents() -> dict[int, int]:
    """The parent of each process."""
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = _stat(int(folder.name))
            except OSError:
                continue
            parents[int(folder.name)] = int(fields[1])
    return parents


def _stat(pid: int) -> list[str]:
    """What the kernel says of a process, after its name."""
    # The name may be of any bytes: the kernel cuts it after 15, also within a letter.
    stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    # It stands in parentheses and may hold spaces and parentheses itself.
    return stat.rpartition(")")[2].split()


def wait_until(done: Callable[[], bool], seconds: float, every: float = 0.05) -> bool:
    """Waits until ``done()`` is true, at most ``seconds``; returns whether it is."""
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() >= end:
            return False
        time.sleep(every)
    return True
