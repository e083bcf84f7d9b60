"""How this process was started."""

import os

# Where Open MPI, other MPIs and Horovod's own launcher say how many they started.
SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "HOROVOD_SIZE")


def launched_together() -> bool:
    """Whether this process was started as one of several."""
    return any(int(os.environ.get(name) or 1) > 1 for name in SIZES)
