"""Simulates disks that fill up."""

import contextlib
import resource


@contextlib.contextmanager
def files_limited_to(size):
    """Makes files end at ``size`` bytes: writes beyond it fail in part, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
