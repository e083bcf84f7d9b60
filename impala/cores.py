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


def share(processes: int = 1, with_others: bool = False) -> None:
    """Lets an operation of TensorFlow take this process's share of the cores, one of so many.

    ``with_others``, be it emulators or actors, that need theirs at the same time, it is half of
    that: threads that wait for a core hold up the operation that they are a part of.
    """
    cores = len(os.sched_getaffinity(0)) // processes
    threads = max(1, cores // 2 if with_others else cores)
    tf.config.threading.set_intra_op_parallelism_threads(threads)
