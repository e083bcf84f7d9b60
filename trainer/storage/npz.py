"""Files of arrays: written whole or not at all, read with the checksum of each array."""

import contextlib
import errno
import io
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from trainer.storage.folder import flush
from user_error import UserError

# What the system says where damaged bytes lead to a place that a file cannot have, or there is
# something else of that name. Errors of no number are those of what unpacks the bytes.
OF_CONTENT = (None, errno.EINVAL, errno.EISDIR)


class Unread(UserError):
    """A file that may be whole, but cannot be read now."""


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Any]:
    """An open file that takes the place of ``path`` once it is written and safe on the disk."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    flush(path.parent)


def arrays_in(source: Path | io.BytesIO) -> dict[str, np.ndarray]:
    """The arrays by their names.

    Any exception means that the file is damaged, but for those that ``refuse_unread`` raises again.
    """
    with zipfile.ZipFile(source) as file:
        # Each entry is read to its end, so that its checksum is compared: NumPy would stop
        # where the array's header says, and the header may be what is damaged.
        return {
            name.removesuffix(".npy"): np.lib.format.read_array(io.BytesIO(file.read(name)))
            for name in file.namelist()
        }


def refuse_unread(path: Path, error: Exception) -> None:
    """Raises ``Unread`` if the error says that, and nothing of what is in the file."""
    if isinstance(error, MemoryError):
        reason, then = "there is too little memory", "Give it more"
    elif isinstance(error, OSError) and error.errno not in OF_CONTENT:
        reason, then = error.strerror or str(error), "Make it readable"
    else:
        return
    raise Unread(f"{path} cannot be read: {reason}. {then} and run the same command again.")
