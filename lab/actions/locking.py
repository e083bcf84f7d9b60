"""Who runs an experiment: one lab at a time, here or on another host that sees its folder."""

import fcntl
import re
import socket
from pathlib import Path
from typing import NamedTuple

from trainer.machine.launching import script_name
from trainer.storage.folder import LOCK, FolderLock
from user_error import UserError


class RunBy(NamedTuple):
    """The process that runs an experiment."""

    process: int  # 0 where it has not been written
    host: str

    @property
    def is_here(self) -> bool:
        """Whether it is a process of this host."""
        return self.host == socket.gethostname()

    def __str__(self) -> str:
        here = "" if self.is_here else f" on {self.host}"
        return f"process {self.process}{here}" if self.process else "its process is not known"


def running_by(folder: Path) -> RunBy | None:
    """What runs an experiment; None if nothing does."""
    try:
        with open(folder / LOCK, "rb") as file:
            try:
                # Over NFS an exclusive lock would need a file that is open for writing.
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return None
            except BlockingIOError:
                return written_by(folder)
    except OSError:
        return None


def written_by(folder: Path) -> RunBy:
    """What has run an experiment last; this takes no lock, which another may want to take."""
    try:
        found = re.match(r"process (\d+) on (\S+)", (folder / LOCK).read_text(errors="replace"))
    except OSError:
        found = None
    return RunBy(int(found[1]), found[2]) if found else RunBy(0, socket.gethostname())


def lock(folder: Path) -> FolderLock:
    """The lock of the one lab that runs an experiment; a ``UserError`` if another has it."""
    try:
        return FolderLock(folder)
    except UserError as error:
        check_free(folder)
        raise UserError(str(error).replace("--logdir=", "")) from None


def check_free(folder: Path) -> None:
    """Refuses an experiment that another lab runs."""
    by = running_by(folder)
    if by:
        raise UserError(
            f"{folder} is run by another lab ({by}). {script_name('bin/lab')} stop {folder} ends "
            "that one."
        )
