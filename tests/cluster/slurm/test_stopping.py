"""Stopping a run on Slurm while its disk is full or its steps end, and a start that fails."""

from pathlib import Path

import pytest

from cluster import agents, options
from cluster.backends.slurm import plan, queue, starting, stopping
from cluster.backends.slurm.queue import SlurmFailed
from cluster.options import Options
from cluster.record import Record
from tests.cluster.slurm.full_disk import full, recorded, running
from tests.cluster.slurm.test_plan import HERE
from user_error import UserError


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


@pytest.mark.parametrize(
    ("said", "end"),
    [
        ("Kill job error on job id 38: Invalid job id specified", 0),
        ("Kill job error on job step id 38: Job step not running", 0),
        ("Kill job error on job id 38: Job/step already completing or completed", 0),
        ("Kill job error on job id 38: Access/permission denied", 1),
    ],
)
def test_a_job_that_ends_before_it_is_cancelled_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys, said: str, end: int
):
    alive = [["38"], []]  # while Slurm is asked, and after it was told to cancel

    def fails(*command: str) -> str:
        raise SlurmFailed(said)

    monkeypatch.setattr(stopping.looking, "look", running)
    monkeypatch.setattr(stopping, "_active", lambda record: alive.pop(0))
    monkeypatch.setattr(queue, "run", fails)
    assert stopping.stop(recorded(tmp_path), Options()) == end
    printed = capsys.readouterr().out
    assert printed.startswith("Not stopped:" if end else "Stopped 1 learner.\n")
    assert (said in printed) == bool(end)


def test_a_start_with_damaged_credentials_keeps_the_former_record(tmp_path: Path):
    chosen, settings = options.parse(["--backend=slurm", "--learners=1", f"--logdir={tmp_path}"])
    made = plan.make_plan(agents.rows_of(chosen), settings, chosen, HERE)
    for path, text in ("credentials/learner.pem", "damaged"), ("cluster/run.json", "the former's"):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text(text)
        (tmp_path / path).chmod(0o600)
    with pytest.raises(UserError, match="learner.pem"):
        starting.start(made, chosen, settings, HERE)
    assert (tmp_path / "cluster" / "run.json").read_text() == "the former's"
