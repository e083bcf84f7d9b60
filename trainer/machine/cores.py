"""The cores that this process may use: who takes how many, and how busy they are."""

import os
from typing import NamedTuple

import psutil
import tensorflow as tf


class CoresTime(NamedTuple):
    """Seconds since the machine started, summed over the cores."""

    busy: float
    passed: float


def cores_time() -> CoresTime | None:
    """The time until now; None where the system does not tell."""
    try:
        each = psutil.cpu_times(percpu=True)
    except (OSError, RuntimeError):
        return None
    mine = [each[core] for core in os.sched_getaffinity(0) if core < len(each)]
    idle = sum(core.idle + getattr(core, "iowait", 0.0) for core in mine)
    # The time of guests is counted in that of users, too.
    guests = sum(getattr(core, "guest", 0.0) + getattr(core, "guest_nice", 0.0) for core in mine)
    passed = sum(sum(core) for core in mine) - guests
    return CoresTime(passed - idle, passed) if passed else None


def busy_share(since: CoresTime | None) -> float | None:
    """The share of the time since then that the cores were busy."""
    now = cores_time()
    if since is None or now is None or now.passed <= since.passed:
        return None
    return min(1.0, max(0.0, (now.busy - since.busy) / (now.passed - since.passed)))


def share(processes: int = 1, side_by_side: int = 1) -> int:
    """Leaves room for operations of TensorFlow side by side; returns for how many there is.

    Each takes its part of this process's share of the cores, one of so many. That is more than
    one where a learner's batch is computed in pieces, or where emulators and actors need their
    cores at the same time: threads that wait for a core hold up the operation that they belong to.
    """
    cores = max(1, len(os.sched_getaffinity(0)) // processes)
    places = min(side_by_side, cores)
    tf.config.threading.set_intra_op_parallelism_threads(cores // places)
    return places
