"""A run whose records lie on a full disk, as stopping it sees them."""

import errno
import os
from pathlib import Path
from typing import Any

from cluster.actions.seen import Seen, SeenPart
from cluster.model import Host, Place
from cluster.record import Part, Record


def full(*_: Any) -> None:
    """Writes nothing: there is no room."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "stopped")


def recorded(folder: Path) -> Record:
    """A run of one learner, with a folder for what is recorded of it."""
    (folder / "logs/run/cluster").mkdir(parents=True)
    part = Part("learner-0", "learner", Place(Host("here", 22), str(folder), "python"))
    jobs = (("Job/impala-1", ("learner-0",)),)
    return Record("id", str(folder / "logs/run"), "", (part,), (), jobs=jobs)


def running(record: Record, *_: Any, **__: Any) -> Seen:
    """All parts of the run, alive."""
    return Seen([SeenPart(part, "running") for part in record.parts], {}, {}, {})
