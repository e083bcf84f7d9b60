"""The cores that this process may use: how they are divided, and how busy they are."""

import contextlib
import os
import time
from typing import NamedTuple

import psutil

from trainer.machine.quota import tightest_quota, usable_cores


class CoresTime(NamedTuple):
    """Seconds since any moment, summed over the cores."""

    busy: float
    passed: float


def cores_time() -> CoresTime | None:
    """The time so far; None if the system does not report it.

    Under a quota it is that of its control group: what others do on the cores says nothing.
    """
    if quota := tightest_quota():
        return CoresTime(quota.used_s, quota.cores * time.monotonic())
    try:
        each = psutil.cpu_times(percpu=True)
    except (OSError, RuntimeError):
        return None
    own = [each[core] for core in os.sched_getaffinity(0) if core < len(each)]
    idle = sum(core.idle + getattr(core, "iowait", 0.0) for core in own)
    # Guests' time is included in the users' time, too.
    guests = sum(getattr(core, "guest", 0.0) + getattr(core, "guest_nice", 0.0) for core in own)
    passed = sum(sum(core) for core in own) - guests
    return CoresTime(passed - idle, passed) if passed else None


def busy_fraction(since: CoresTime | None) -> float | None:
    """The fraction of the time since then in which the cores were busy."""
    now = cores_time()
    if since is None or now is None or now.passed <= since.passed:
        return None
    return min(1.0, max(0.0, (now.busy - since.busy) / (now.passed - since.passed)))


def divide(processes: int = 1, side_by_side: int = 1) -> int:
    """Limits the threads of a TensorFlow operation; returns how many operations run in parallel.

    This process gets one of ``processes`` equal parts of the cores, and each of ``side_by_side``
    operations gets an equal part of those. Several operations run in parallel where a learner
    computes its batch in pieces, or where emulators and actors need cores at the same time. Too
    many threads would wait for a core and delay the operation that they belong to.
    """
    import tensorflow as tf  # late: who only asks how busy the cores are goes without

    cores = max(1, usable_cores() // processes)
    parallel_ops = min(side_by_side, cores)
    with contextlib.suppress(RuntimeError):  # the caller has used TensorFlow before
        tf.config.threading.set_intra_op_parallelism_threads(cores // parallel_ops)
    return parallel_ops
