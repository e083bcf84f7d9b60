"""Stopping a run on Slurm while the disk of its records is full."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from cluster.actions.seen import Seen, SeenPart
from cluster.backends.slurm import stopping
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


def test_jobs_are_cancelled_anyway(record: Record, monkeypatch: pytest.MonkeyPatch, capsys):
    cancelled: list[str] = []

    def cancel(record: Record, grace_s: float) -> tuple[bool, list[str]]:
        cancelled.append(record.run_id)
        return False, []

    monkeypatch.setattr(stopping, "write_whole", full)
    monkeypatch.setattr(stopping.looking, "look", running)
    monkeypatch.setattr(stopping, "_cancel", cancel)
    assert stopping.stop(record, Options()) == 0 and cancelled == ["id"]
    assert capsys.readouterr().out == "Stopped 1 learner.\n"
