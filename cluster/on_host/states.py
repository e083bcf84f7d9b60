"""The state of a process: what its keeper last wrote, and whether that is still true."""

import contextlib
import fcntl
import json
import os
import signal
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO, Any

from cluster.on_host.processes import boot_id, is_alive

# The file in which a stop records the run's id.
STOPPED = "stopped"
# In a folder that sync made: processes of runs hold a shared lock on it, sync an exclusive one.
IN_USE = ".impala-copy"
# The state of an mpirun none of whose learners has written anything for a while.
SILENT = "running, no sign of life"


def read(records: Path, name: str, run_id: str) -> dict[str, Any]:
    """What this run's keeper wrote; "stopped" if a stop came before it could write."""
    try:
        state = json.loads((records / f"{name}.json").read_text())
    except (OSError, ValueError):
        state = {}
    if state.get("run_id") == run_id:
        return state
    return {"state": "stopped"} if is_stopped(records, run_id) else {}


def of_other_runs(records: Path, own: Collection[str]) -> dict[str, int]:
    """The living processes whose states here are of other runs than these.

    Each with the id of what to end: its keeper, or itself if that is gone.
    """
    names = [path.stem for path in sorted(records.glob("*.json"))]
    found = {}
    for name in names:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            state = json.loads((records / f"{name}.json").read_text())
            # Other files of the folder have no keeper.
            keeper = state["keeper"]
            if state["run_id"] not in own and is_living(judged(state, boot_id())):
                found[name] = (keeper if is_alive(*keeper) else state["child"])[0]
    return found


def write_whole(path: Path, content: str | bytes) -> None:
    """Replaces a file at once, so that nobody ever reads half of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Only one process at a time is between begin and end; the kernel lets go if it dies."""
    with open(path, "a") as lock:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def claim(path: Path, run_id: str) -> IO[str] | None:
    """A lock on a process of a run; None if another keeper of the run has it.

    The kernel releases it when the keeper ends, however that happens.
    """
    lock = open(path, "a+")  # noqa: SIM115 (the caller holds it)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        if lock.read() == run_id:
            lock.close()
            return None
        return lock  # held by an earlier run, which is none of our business
    except OSError:
        return lock  # a file system without locks
    with contextlib.suppress(OSError):  # a full disk
        lock.truncate(0)
        lock.write(run_id)
        lock.flush()
    return lock


def hold(folder: str) -> int | None:
    """A lock that says that the project in a folder is in use; None where it cannot be had.

    A process that inherits it holds it as well, so that it outlasts its keeper.
    """
    try:
        # To read, too: NFS has no shared lock on what is only written.
        lock = os.open(Path(folder) / IN_USE, os.O_RDWR)
        fcntl.flock(lock, fcntl.LOCK_SH)
    except OSError:  # a checkout, which sync does not touch, or a file system without locks
        return None
    return lock


def is_stopped(records: Path, run_id: str) -> bool:
    """Whether the run must not start anything more here."""
    try:
        return (records / STOPPED).read_text() == run_id
    except OSError:
        return False


def judged(state: dict[str, Any], boot: str) -> str:
    """The state now, which after a crash differs from what was last written."""
    if not state:
        return "not started"
    if state["state"] == "stopped":
        return "stopped"
    if state["state"] == "ended":
        code = state["exit_code"]
        return "done" if code == 0 else _failure(code)
    if state["boot_id"] != boot:
        return "lost: the host was rebooted"
    if is_alive(*state["keeper"]):
        return state["state"]
    child = state.get("child")
    if child and is_alive(*child):
        return "running, unsupervised"
    return "died without a keeper"


def is_living(state: str) -> bool:
    """Whether a process in this state is running, or will be again."""
    living = ("waiting", "starting", "running", "suspended", "pausing", "stopping")
    return state.split(",")[0] in living


def _failure(code: int) -> str:
    if code >= 0:
        return f"failed: {code}"
    try:
        return f"killed: {signal.Signals(-code).name}"
    except ValueError:
        return f"killed: {-code}"
