"""Describes the machine that a benchmark runs on."""

import os
from pathlib import Path

from trainer.machine.quiet import import_tensorflow
from trainer.settings.config import Settings


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
