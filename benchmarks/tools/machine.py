"""Describes the machine that a benchmark runs on."""

import os
from pathlib import Path

from trainer.machine.quiet import import_tensorflow
from trainer.machine.quota import usable_cores
from trainer.settings.config import Settings


def cores() -> int:
    """How many cores this process may use: what ``taskset`` and quotas leave of the machine's."""
    return usable_cores()


def processor() -> str:
    """The processor's name and how many of its cores this process may use."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    many = "1 core" if cores() == 1 else f"{cores()} cores"
    return f"{names[0] if names else 'unknown processor'}, {many}"


def siblings() -> str:
    """The physical cores, each with its hardware threads, which share its speed."""
    found = set()
    for core in os.sched_getaffinity(0):
        path = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
        found.add(path.read_text().strip() if path.exists() else str(core))
    return f"{len(found)} physical cores ({', '.join(sorted(found))})"


def precision(settings: Settings) -> str:
    """The arithmetic of a training with these settings on this machine."""
    import_tensorflow()
    from trainer.machine.precision import compute_dtype

    return compute_dtype(settings.agent.precision).name
