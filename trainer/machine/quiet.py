"""Importing TensorFlow: quickly, and without the lines that its libraries print."""

import contextlib
import gc
import os
import sys
import tempfile
from collections.abc import Iterator
from typing import IO

from user_error import UserError


def import_tensorflow() -> None:
    """Imports it; what was printed meanwhile is shown only if the import fails.

    The lines come from C++ before any logging can be set up, so the descriptor is redirected.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.stderr.flush()
    kept = os.dup(2)
    with _file() as held, _nothing_to_collect():
        os.dup2(held.fileno(), 2)
        try:
            import tensorflow  # noqa: F401
        except ModuleNotFoundError as error:
            if error.name != "tensorflow":
                raise
            raise UserError(
                f"{sys.executable} has no TensorFlow. bin/train sets up a Python that has, and "
                "runs experiment.py with it; afterwards it is .venv/bin/python."
            ) from None
        except BaseException:
            held.seek(0)
            os.write(kept, held.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)


@contextlib.contextmanager
def _nothing_to_collect() -> Iterator[None]:
    """Leaves garbage alone meanwhile, and what was made is not looked at ever after.

    Hundreds of thousands of objects come, and all of them stay: a third of the time of importing
    them goes to looking for garbage among them.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _file() -> IO[bytes]:
    """Where the lines are kept; on a full disk nowhere."""
    try:
        return tempfile.TemporaryFile()
    except OSError:
        return open(os.devnull, "r+b")
