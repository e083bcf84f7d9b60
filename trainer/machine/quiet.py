"""Importing TensorFlow quickly, and without the lines that its libraries print."""

import contextlib
import gc
import os
import sys
import tempfile
from collections.abc import Iterator
from typing import IO

from checkout import is_checkout
from user_error import UserError

# TensorFlow imports these where they are installed, which takes a third of its time. What needs
# them imports them later as usual, tf.keras among them.
NOT_NEEDED = ("keras", "jax", "matplotlib")


def import_tensorflow() -> None:
    """Imports it; shows what its libraries print only if the import fails.

    C++ code prints these lines before logging can be configured, so the descriptor is redirected.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.stderr.flush()
    stderr = os.dup(2)
    with _capture_file() as captured, _without_garbage_collection(), _without(*NOT_NEEDED):
        os.dup2(captured.fileno(), 2)
        try:
            import tensorflow  # noqa: F401

            from trainer.machine import gpus

            gpus.take_memory_as_needed()
            gpus.keep_one()
        except ModuleNotFoundError as error:
            if error.name != "tensorflow":
                raise
            raise UserError(f"{sys.executable} has no TensorFlow. {_remedy()}") from None
        except BaseException:
            captured.seek(0)
            os.write(stderr, captured.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


def _remedy() -> str:
    if is_checkout():
        return (
            "Run bin/train instead: it sets up .venv and runs experiment.py with it. Afterwards "
            ".venv/bin/python works, too."
        )
    return "Install it with: pip install tensorflow-cpu, or tensorflow[and-cuda] for a GPU."


@contextlib.contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Suspends garbage collection, and exempts all objects made so far from later collections.

    The import creates hundreds of thousands of objects, all of which stay. Searching them for
    garbage would take a third of its time.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextlib.contextmanager
def _without(*packages: str) -> Iterator[None]:
    """Makes imports of these packages fail as if they were not installed."""
    hidden = [name for name in packages if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


def _capture_file() -> IO[bytes]:
    """A temporary file; the null device if the disk is full."""
    try:
        return tempfile.TemporaryFile()
    except OSError:
        return open(os.devnull, "r+b")
