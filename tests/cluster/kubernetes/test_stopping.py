"""Stopping a run on Kubernetes while the disk of its records is full."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from cluster.actions.seen import Seen, SeenPart
from cluster.backends.kubernetes import stopping
from cluster.model import Host, Place
from cluster.options import Options
from cluster.record import Part, Record


def full(*_: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "stopped")


@pytest.fixture
def record(tmp_path: Path) -> Record:
    (tmp_path / "logs/run/cluster").mkdir(parents=True)
    part = Part("learner-0", "learner", Place(Host("here", 22), str(tmp_path), "python"))
    jobs = (("Job/impala-1", ("learner-0",)),)
    return Record("id", str(tmp_path / "logs/run"), "", (part,), (), jobs=jobs)


def running(record: Record, *_: Any, **__: Any) -> Seen:
    return Seen([SeenPart(part, "running") for part in record.parts], {}, {}, {})


class Objects:
    """A cluster that has one job of the run."""

    def __init__(self) -> None:
        self.jobs = ["impala-1"]

    def list(self, kind: str, label: str) -> list[dict[str, Any]]:
        return [{"metadata": {"name": name}} for name in self.jobs if kind == "Job"]

    def delete(self, kind: str, name: str) -> None:
        self.jobs.remove(name)


def test_jobs_are_deleted_anyway(record: Record, monkeypatch: pytest.MonkeyPatch, capsys):
    objects: Any = Objects()
    monkeypatch.setattr(stopping, "write_whole", full)
    monkeypatch.setattr(stopping.looking, "look", running)
    assert stopping.stop(record, Options(), objects) == 0 and objects.jobs == []
    assert capsys.readouterr().out == "Stopped 1 learner.\n"
