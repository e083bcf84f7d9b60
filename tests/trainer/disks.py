"""Disks that fill up."""

import contextlib
import resource


@contextlib.contextmanager
def files_limited_to(size):
    """Writes beyond ``size`` fail after a part was taken, as on a disk that fills up."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
