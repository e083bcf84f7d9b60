"""A run's folder: created, checked to be writable, and locked for one training at a time."""

import contextlib
import fcntl
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from user_error import NO_ROOM, NotWritten, UserError

LOCK = ".lock"
LEFT_AFTER_S = 3600.0  # whoever is still writing a file has changed it since
GOES_ON = (
    "Nothing else is lost: make room and run the same command again, and it goes on where it was."
)


def make_writable(folder: Path) -> None:
    """Creates the folder; ``UserError`` if nothing can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _unwritable(folder, error) from None


class FolderLock:
    """The lock of the one training that writes to a folder.

    The kernel releases it when the process ends, for whatever reason; the file stays. What killed
    processes have left is removed.
    """

    def __init__(self, folder: Path):
        try:
            self._file = open(folder / LOCK, "a+b", buffering=0)  # noqa: SIM115 (held until released)
        except OSError as error:
            raise _unwritable(folder, error) from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.seek(0)
            holder = self._file.read(200).decode(errors="replace").strip()
            raise UserError(
                f"--logdir={folder} is in use by another training ({holder or 'just started'}). "
                "Stop it, or choose another --logdir."
            ) from None
        except OSError:
            return  # the file system has no locks
        remove_leftovers(folder)
        with contextlib.suppress(OSError):  # the disk is full
            self._file.truncate(0)
            self._file.write(f"process {os.getpid()} on {socket.gethostname()}\n".encode())

    def give_sign(self) -> None:
        """Makes the file newer, which says to others that the training is alive."""
        with contextlib.suppress(OSError):
            os.utime(self._file.fileno())

    def release(self) -> None:
        """Releases the lock, so that others can write to the folder."""
        self._file.close()


def remove_leftovers(folder: Path, pattern: str = ".*.[0-9]*.tmp") -> None:
    """Deletes temporary files that killed processes have left; newer ones may be in use.

    The pattern is that of all files that ``npz.replacing`` writes.
    """
    for path in folder.glob(pattern):
        with contextlib.suppress(OSError):  # it may be another user's
            if path.is_file() and time.time() - path.stat().st_mtime > LEFT_AFTER_S:
                path.unlink()


def _unwritable(path: Path, error: OSError) -> UserError:
    kind = NotWritten if error.errno in NO_ROOM else UserError
    return kind(f"--logdir={path} cannot be written ({error.strerror}). Name another folder.")


def flush(folder: Path) -> None:
    """Makes a new or missing name survive a power cut, where the file system supports it."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def writing(what: Path, then: str = GOES_ON) -> Iterator[None]:
    """Turns a failure to write into one line, which ends with what is to be done ``then``.

    What was written before is still there.
    """
    try:
        yield
    except OSError as error:
        kind = NotWritten if error.errno in NO_ROOM else UserError
        raise kind(f"{what} could not be written ({error.strerror or error}). {then}") from None
