"""What this process may use of the machine: affinity, and limits of control groups.

A container has limits with ``docker run --cpus --memory`` or by Kubernetes: all cores and all
memory can be seen there, but only a part of them used.
"""

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")


class Quota(NamedTuple):
    """What a control group may use, and has used."""

    cores: float
    used_s: float


def usable_cores() -> int:
    """Cores that may be busy at a time, at least 1."""
    limits = [_cores(version, folder) for version, folder in _groups("cpu")]
    return max(1, math.ceil(min([len(os.sched_getaffinity(0)), *limits])))


def tightest_quota() -> Quota | None:
    """The quota that keeps this process from using all of its cores, if one does."""
    limits = [(_cores(version, folder), version, folder) for version, folder in _groups("cpu")]
    cores, version, folder = min(limits, default=(math.inf, 2, CGROUPS), key=lambda one: one[0])
    used_s = _used_s(version, folder)
    if cores >= len(os.sched_getaffinity(0)) or used_s is None:
        return None
    return Quota(cores, used_s)


def free_memory() -> int:
    """Bytes of memory that this process may still take."""
    limits = [
        _memory(folder, "memory.max", "memory.current", "inactive_file")
        if version == 2
        else _memory(
            folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
        )
        for version, folder in _groups("memory")
    ]
    return max(0, int(min([psutil.virtual_memory().available, *limits])))


def _groups(controller: str) -> Iterator[tuple[int, Path]]:
    """The folders of this process's control groups and those above them, with their version."""
    try:
        lines = OWN_CGROUP.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield from ((2, folder) for folder in _upwards(CGROUPS, path))
        elif controller in controllers.split(","):
            yield from ((1, folder) for folder in _upwards(CGROUPS / controller, path))


def _upwards(root: Path, path: str) -> list[Path]:
    """A group's folder and those above it; within a container it may be the root itself."""
    folder = root / path.lstrip("/")
    return [folder, *(parent for parent in folder.parents if parent.is_relative_to(root))]


def _cores(version: int, folder: Path) -> float:
    return _cores_of_version_2(folder) if version == 2 else _cores_of_version_1(folder)


def _cores_of_version_2(folder: Path) -> float:
    try:
        quota, period = (folder / "cpu.max").read_text().split()
        return math.inf if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return math.inf


def _cores_of_version_1(folder: Path) -> float:
    try:
        quota = int((folder / "cpu.cfs_quota_us").read_text())
        return quota / int((folder / "cpu.cfs_period_us").read_text()) if quota > 0 else math.inf
    except (OSError, ValueError, ZeroDivisionError):
        return math.inf


def _used_s(version: int, folder: Path) -> float | None:
    try:
        if version == 2:
            lines = (folder / "cpu.stat").read_text().splitlines()
            return int(dict(line.split() for line in lines)["usage_usec"]) / 1e6
        return int((folder / "cpuacct.usage").read_text()) / 1e9
    except (OSError, ValueError, KeyError):
        return None


def _memory(folder: Path, limit: str, used: str, cache: str) -> float:
    """What a group may still take; the cache of files makes room."""
    try:
        most = int((folder / limit).read_text())
        now = int((folder / used).read_text())
        rows = (line.split() for line in (folder / "memory.stat").read_text().splitlines())
        cached = next((int(value) for name, value in rows if name == cache), 0)
    except (OSError, ValueError):
        return math.inf
    return most - now + cached
