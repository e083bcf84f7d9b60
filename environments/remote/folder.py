"""The private folder of a remote: its password, the files of its X server and of its browser."""

import contextlib
import fcntl
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from user_error import UserError

PREFIX = "impala-remote-"
LOCK = "lock"  # held while its remote lives
TRIES, PAUSE_S = 20, 0.1  # what a browser writes while it ends is removed, too


def new_path() -> Path:
    """Where no folder is yet."""
    return Path(tempfile.gettempdir(), PREFIX + secrets.token_hex(6))


@contextlib.contextmanager
def made(path: str) -> Iterator[Path]:
    """Makes the folder, for all temporary files of this process; removed at the end.

    Those of remotes that were killed are removed first.
    """
    remove_left()
    folder = Path(path) if path else new_path()
    try:
        folder.mkdir(0o700)
    except OSError as error:
        raise UserError(
            f"--folder={folder}: it cannot be made ({error.strerror}); expected a path at which "
            "there is nothing yet."
        ) from None
    before = tempfile.tempdir
    try:
        with _locked(folder):
            tempfile.tempdir = str(folder)
            yield folder
    finally:
        tempfile.tempdir = before
        remove(folder)


def remove(folder: Path) -> None:
    """Removes a folder, in which somebody may still write for a moment."""
    for _ in range(TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(PAUSE_S)


def remove_left() -> None:
    """Removes the folders of this user's remotes that do not live any more."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if folder.lstat().st_uid != os.getuid():
                continue
            with open(folder / LOCK) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(folder)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    hidden = folder / f".{LOCK}"
    with open(hidden, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Under this name it is never seen without its holder.
        hidden.rename(folder / LOCK)
        yield
