"""How this process was started, and how a user here starts others like it."""

import os
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]

# Where Open MPI, other MPIs and Horovod's own launcher say how many they started.
SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "HOROVOD_SIZE")


def launched_together() -> bool:
    """Whether this process was started as one of several."""
    return any(int(os.environ.get(name) or 1) > 1 for name in SIZES)


def beside_python(name: str) -> str:
    """A program of the environment that this process runs in, as it can be typed here."""
    return typed(Path(sys.executable).with_name(name))


def typed(path: str | Path) -> str:
    """A path as it is named in the current folder, where it lies below that."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def keep_to_this_host() -> None:
    """Has Open MPI open no ports where all that it started is here and can talk by memory.

    What whoever started it has chosen is left as it is.
    """
    if os.environ.get("OMPI_COMM_WORLD_LOCAL_SIZE") == os.environ.get("OMPI_COMM_WORLD_SIZE"):
        os.environ.setdefault("OMPI_MCA_btl", "self,vader")
