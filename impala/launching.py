"""How this process was started."""

import os

# Where Open MPI, other MPIs and Horovod's own launcher say how many they started.
SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "HOROVOD_SIZE")


def launched_together() -> bool:
    """Whether this process was started as one of several."""
    return any(int(os.environ.get(name) or 1) > 1 for name in SIZES)


def keep_to_this_host() -> None:
    """Has Open MPI open no ports where all that it started is here and can talk by memory.

    What whoever started it has chosen is left as it is.
    """
    if os.environ.get("OMPI_COMM_WORLD_LOCAL_SIZE") == os.environ.get("OMPI_COMM_WORLD_SIZE"):
        os.environ.setdefault("OMPI_MCA_btl", "self,vader")
