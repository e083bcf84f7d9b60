"""Places for sessions side by side: as many as cores and memory carry, each with its cores."""

import os
from typing import Protocol

from lab.specs.meta import Meta, Resources
from lab.trials.claims import is_claimed
from lab.trials.sessions import Session, launch_here
from trainer.machine.quota import free_memory, usable_cores
from user_error import UserError

GIB = 2**30


class Places(Protocol):
    """Where sessions run side by side."""

    def count(self) -> int:
        """How many there is room for, running ones included."""

    def start(self, session: Session, slot: int, meta: Meta) -> None:
        """Starts a session in a place that is free, by its number."""

    def of(self, session: Session) -> int | None:
        """The place of a running session that another runner has started, if it has one here."""


class Here:
    """Places on this machine."""

    def __init__(self, resources: Resources, most_cores: int = 0, held: int = 0):
        """``held`` are bytes of memory that sessions have which this runner takes over."""
        self._slots = slots(resources, most_cores, held)

    def count(self) -> int:
        """As many as cores and memory carried at first."""
        return len(self._slots)

    def start(self, session: Session, slot: int, meta: Meta) -> None:
        """Starts a session on the cores of a place."""
        limits = meta.session_timeout_s, meta.silent_timeout_s
        session.start(self._slots[slot], *limits, launch_here)

    def of(self, session: Session) -> int | None:
        """The place whose cores the session has; none if places have become others."""
        cores = session.written().get("cores")
        return self._slots.index(cores) if cores in self._slots else None


def slots(resources: Resources, most_cores: int = 0, held: int = 0) -> list[list[int]]:
    """The cores of each place; at least one place, or a ``UserError``.

    Cores that sessions of another experiment have come last.
    """
    cores = sorted(os.sched_getaffinity(0), key=lambda core: (is_claimed(core), core))
    cores = cores[: min(usable_cores(), most_cores or len(cores))]
    if resources.cores > len(cores):
        raise UserError(
            f"meta.resources.cores: found {resources.cores}; expected at most {len(cores)}, the "
            "cores that may be used here."
        )
    memory = (free_memory() + held) / GIB
    if resources.memory_gb > memory:
        raise UserError(
            f"meta.resources.memory_gb: found {resources.memory_gb:g}; expected at most "
            f"{memory:.1f}, the memory that is free here."
        )
    count = min(len(cores) // resources.cores, int(memory / resources.memory_gb))
    return [cores[place * resources.cores :][: resources.cores] for place in range(count)]
