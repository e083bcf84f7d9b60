"""How many cores this process may use: what is left of the machine's by affinity and by quota."""

import math
import os
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")


def usable_cores() -> int:
    """Cores that may be busy at a time, at least 1.

    A quota is what a container gets with ``docker run --cpus`` or a limit of Kubernetes: all cores
    are there, but for a part of the time only.
    """
    return max(1, math.ceil(min(len(os.sched_getaffinity(0)), _quota())))


def _quota() -> float:
    """The smallest quota of this process's control groups, in cores; infinite without one."""
    try:
        lines = OWN_CGROUP.read_text().splitlines()
    except OSError:
        return math.inf
    limits = [math.inf]
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:  # version 2
            limits += [_limit(folder) for folder in _upwards(CGROUPS, path)]
        elif "cpu" in controllers.split(","):  # version 1
            limits += [_limit_of_version_1(f) for f in _upwards(CGROUPS / "cpu", path)]
    return min(limits)


def _upwards(root: Path, path: str) -> list[Path]:
    """A group's folder and those above it; within a container it may be the root itself."""
    folder = root / path.lstrip("/")
    return [folder, *(parent for parent in folder.parents if parent.is_relative_to(root))]


def _limit(folder: Path) -> float:
    try:
        quota, period = (folder / "cpu.max").read_text().split()
        return math.inf if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return math.inf


def _limit_of_version_1(folder: Path) -> float:
    try:
        quota = int((folder / "cpu.cfs_quota_us").read_text())
        return quota / int((folder / "cpu.cfs_period_us").read_text()) if quota > 0 else math.inf
    except (OSError, ValueError, ZeroDivisionError):
        return math.inf
