"""Folders that builds run in: each is held by the program beside its build while that lives."""

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

PREFIX = "impala-unity-"
LOCK = "lock"
TRIES, PAUSE_S = 20, 0.1  # what a build writes while it ends is removed, too


def made() -> tuple[Path, int]:
    """A new folder, and a descriptor that holds it until the last copy of it is closed.

    Those that nobody holds any more are removed first.
    """
    remove_left()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    hidden = folder / f".{LOCK}"
    lock = os.open(hidden, os.O_WRONLY | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    hidden.rename(folder / LOCK)  # under this name it is never seen without its holder
    return folder, lock


def remove(folder: Path) -> None:
    """Removes a folder, in which somebody may still write for a moment."""
    for _ in range(TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(PAUSE_S)


def remove_left() -> None:
    """Removes this user's folders whose holders were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if folder.lstat().st_uid != os.getuid():
                continue
            with open(folder / LOCK) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(folder)
