"""The private folder of a remote: its password, the files of its X server and of its browser."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from environments import held_folders
from user_error import EndedOutside, UserError

PREFIX = "impala-remote-"


@contextlib.contextmanager
def made(path: str) -> Iterator[Path]:
    """Makes the folder, for all temporary files of this process; removed at the end.

    Those of remotes that were killed are removed first.
    """
    held_folders.remove_left(PREFIX)
    # Programs find their desktop's files by it, from another current folder.
    folder = Path(path).absolute() if path else held_folders.new_path(PREFIX)
    try:
        lock = held_folders.make(folder)
    except FileExistsError as error:
        raise UserError(
            f"--folder={folder}: it cannot be made ({error.strerror}); expected a path at which "
            "there is nothing yet."
        ) from None
    except OSError as error:
        raise EndedOutside(f"{folder} cannot be made: {error.strerror}.") from None
    before = tempfile.tempdir
    try:
        tempfile.tempdir = str(folder)
        yield folder
    finally:
        tempfile.tempdir = before
        held_folders.remove(folder)
        os.close(lock)
