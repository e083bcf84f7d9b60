"""Stopping a run on Slurm while the disk of its records is full."""

from pathlib import Path

import pytest

from cluster.backends.slurm import stopping
from cluster.options import Options
from cluster.record import Record
from tests.cluster.slurm.full_disk import full, recorded, running


def test_jobs_are_cancelled_anyway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    cancelled: list[str] = []

    def cancel(record: Record, grace_s: float) -> tuple[bool, list[str]]:
        cancelled.append(record.run_id)
        return False, []

    monkeypatch.setattr(stopping, "write_whole", full)
    monkeypatch.setattr(stopping.looking, "look", running)
    monkeypatch.setattr(stopping, "_cancel", cancel)
    assert stopping.stop(recorded(tmp_path), Options()) == 0 and cancelled == ["id"]
    assert capsys.readouterr().out == "Stopped 1 learner.\n"
