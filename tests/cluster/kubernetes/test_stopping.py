"""Stopping a run on Kubernetes while the disk of its records is full."""

from pathlib import Path
from typing import Any

import pytest

from cluster.backends.kubernetes import stopping
from cluster.options import Options
from tests.cluster.slurm.full_disk import full, recorded, running


class Objects:
    """A cluster that has one job of the run."""

    def __init__(self) -> None:
        self.jobs = ["impala-1"]

    def list(self, kind: str, label: str) -> list[dict[str, Any]]:
        return [{"metadata": {"name": name}} for name in self.jobs if kind == "Job"]

    def delete(self, kind: str, name: str) -> None:
        self.jobs.remove(name)


def test_jobs_are_deleted_anyway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    objects: Any = Objects()
    monkeypatch.setattr(stopping, "write_whole", full)
    monkeypatch.setattr(stopping.looking, "look", running)
    assert stopping.stop(recorded(tmp_path), Options(), objects) == 0 and objects.jobs == []
    assert capsys.readouterr().out == "Stopped 1 learner.\n"
