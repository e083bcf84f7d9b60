"""Temporary folders that the next start removes if whoever held them was killed."""

import contextlib
import fcntl
import os
import secrets
import shutil
import tempfile
import time
from pathlib import Path

LOCK = "lock"  # held as long as the folder is needed
TRIES, PAUSE_S = 20, 0.1  # what a program writes while it ends is removed, too


def new_path(prefix: str) -> Path:
    """Where no folder is yet."""
    return Path(tempfile.gettempdir(), prefix + secrets.token_hex(6))


def make_new(prefix: str) -> tuple[Path, int]:
    """A new folder and what holds it, once those that nobody holds have been removed."""
    remove_left(prefix)
    folder = new_path(prefix)
    return folder, make(folder)


def make(folder: Path) -> int:
    """Makes it for this user alone; a descriptor holds it until its last copy is closed."""
    folder.mkdir(0o700)
    hidden = folder / f".{LOCK}"
    with contextlib.ExitStack() as undo:
        undo.callback(shutil.rmtree, folder, ignore_errors=True)
        lock = os.open(hidden, os.O_WRONLY | os.O_CREAT, 0o600)
        undo.callback(os.close, lock)
        fcntl.flock(lock, fcntl.LOCK_EX)
        hidden.rename(folder / LOCK)  # under this name it is never seen without its holder
        undo.pop_all()
    return lock


def remove(folder: Path) -> None:
    """Removes a folder, in which somebody may still write for a moment.

    The lock goes last: without it, nobody would remove what is left.
    """
    for _ in range(TRIES):
        with contextlib.suppress(OSError):
            for one in [one for one in folder.iterdir() if one.name != LOCK]:
                if one.is_dir() and not one.is_symlink():
                    shutil.rmtree(one)
                else:
                    one.unlink()
            shutil.rmtree(folder)
        if not folder.exists():
            return
        time.sleep(PAUSE_S)


def remove_left(prefix: str) -> None:
    """Removes this user's folders of that prefix that nobody holds any more."""
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            if folder.lstat().st_uid != os.getuid():
                continue
            with open(folder / LOCK) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(folder)
