"""Importing TensorFlow without the lines that its libraries print about themselves."""

import os
import sys
import tempfile
from typing import IO

from user_error import UserError


def import_tensorflow() -> None:
    """Imports it; what was printed meanwhile is shown only if the import fails.

    The lines come from C++ before any logging can be set up, so the descriptor is redirected.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.stderr.flush()
    kept = os.dup(2)
    with _file() as held:
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


def _file() -> IO[bytes]:
    """Where the lines are kept; on a full disk nowhere."""
    try:
        return tempfile.TemporaryFile()
    except OSError:
        return open(os.devnull, "r+b")
