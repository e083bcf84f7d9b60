"""Places for sessions side by side: as many as cores and memory carry, each with its cores."""

import os

import psutil

from lab.specs.meta import Resources
from trainer.machine.quota import usable_cores
from user_error import UserError

GIB = 2**30


def slots(resources: Resources, most_cores: int = 0) -> list[list[int]]:
    """The cores of each place; at least one place, or a ``UserError``."""
    cores = sorted(os.sched_getaffinity(0))[: usable_cores()]
    if most_cores:
        cores = cores[:most_cores]
    if resources.cores > len(cores):
        raise UserError(
            f"meta.resources.cores: found {resources.cores}; expected at most {len(cores)}, the "
            "cores that may be used here."
        )
    memory = psutil.virtual_memory().available / GIB
    if resources.memory_gb > memory:
        raise UserError(
            f"meta.resources.memory_gb: found {resources.memory_gb:g}; expected at most "
            f"{memory:.1f}, the memory that is free here."
        )
    count = min(len(cores) // resources.cores, int(memory / resources.memory_gb))
    return [cores[place * resources.cores :][: resources.cores] for place in range(count)]
