"""Room on the disk: a runner that cannot write waits for it, or says what else is wrong."""

import errno
import os
import shutil
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import sqlalchemy.exc
from optuna.exceptions import StorageInternalError

from lab.trials.folder import STUDY
from user_error import UserError

# A disk that is full may get room; meanwhile sessions run on and their ends wait in their files.
PAUSE_S, GIVE_UP_S = 2.0, 1800.0
LEAST_FREE = 2**20
WRITE_ERRORS = (OSError, StorageInternalError, sqlalchemy.exc.SQLAlchemyError, sqlite3.Error)


class Room:
    """Room for what an experiment writes to its folder."""

    def __init__(self, folder: Path, say: Callable[[str], None]):
        self._folder = folder
        self._say = say
        self._paused_since = 0.0

    def check(self) -> None:
        """Raises what a full disk would raise, before it is quite full."""
        if shutil.disk_usage(self._folder).free < LEAST_FREE:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def found(self) -> None:
        """Notes that all could be written."""
        self._paused_since = 0.0

    def wait(self, error: Exception) -> None:
        """Waits for room on the disk; gives up after half an hour."""
        folder, cause = self._folder, _cause(error)
        # For a full disk, SQLite raises a subclass. Errors of neither kind do not come from a disk.
        of_content = type(cause) is sqlite3.DatabaseError
        if of_content or not isinstance(cause, OSError | sqlite3.Error):
            raise UserError(
                f"{folder / STUDY}: found no study ({cause}); expected what the lab has written. "
                "Restore it from a copy, or remove it: the next start makes it from the records."
            )
        reason = getattr(cause, "strerror", None) or str(cause).partition("\n")[0]
        if not self._paused_since:
            self._paused_since = time.monotonic()
            self._say(
                f"{folder} cannot be written ({reason}). Sessions run on; the "
                "experiment goes on once there is room."
            )
        if time.monotonic() - self._paused_since > GIVE_UP_S:
            raise UserError(
                f"{folder} could not be written for {GIVE_UP_S / 60:g} minutes ({reason}). "
                "Sessions run on; make room, and the same command, without --new, goes on."
            )
        time.sleep(PAUSE_S)


def _cause(error: BaseException) -> BaseException:
    """What Python's own SQLite has said, where Optuna and SQLAlchemy have wrapped it."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error
