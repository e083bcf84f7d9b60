"""Schedulers that do not answer for a while: asked again, and nothing is there twice."""

from pathlib import Path
from typing import Any

import pytest

from cluster import agents, options
from cluster.backends import patience
from cluster.backends.kubernetes import starting as on_kubernetes
from cluster.backends.kubernetes.api import KubernetesAway, KubernetesFailed
from cluster.backends.patience import patiently
from cluster.backends.slurm import plan, queue
from cluster.backends.slurm import starting as on_slurm
from cluster.backends.slurm.backend import SlurmBackend
from cluster.backends.slurm.queue import SlurmAway, SlurmFailed
from cluster.options import Options
from tests.cluster.kubernetes.test_plan import planned
from tests.cluster.slurm.test_plan import HERE

SILENT = "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect)"


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "AGAIN_S", 0.01)


@pytest.mark.parametrize(
    ("said", "is_away"), [(SILENT, True), ("sbatch: error: Invalid partition name", False)]
)
def test_a_controller_that_is_away_is_no_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, is_away: bool
):
    program = tmp_path / "sbatch"
    program.write_text(f"#!/bin/sh\necho '{said}' >&2; exit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(SlurmFailed) as failed:
        queue.run("sbatch")
    assert isinstance(failed.value, SlurmAway) == is_away


def test_only_silence_is_waited_out_and_not_for_ever(capsys: pytest.CaptureFixture[str]):
    asked: list[int] = []

    def ask() -> int:
        asked.append(len(asked))
        if len(asked) < 3:
            raise SlurmAway("Slurm does not answer")
        return len(asked)

    assert patiently(ask, SlurmAway, 60.0) == 3
    assert capsys.readouterr().out == "Slurm does not answer. Asking again for 60 s.\n"
    asked.clear()
    with pytest.raises(SlurmAway):
        patiently(ask, SlurmAway, 0.0)
    assert asked == [0]

    def refuse() -> None:
        asked.append(0)
        raise SlurmFailed("Invalid account")

    with pytest.raises(SlurmFailed):
        patiently(refuse, SlurmAway, 60.0)
    assert len(asked) == 2


@pytest.mark.parametrize("is_taken", [False, True])
def test_a_job_whose_submission_was_not_answered_is_submitted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_taken: bool
):
    """Slurm has taken it, and its answer was lost; or it has heard nothing."""
    there: list[str] = []
    silent = [True, True]

    def slurm(command: str, *words: str, **_: Any) -> str:
        if command == "sbatch":
            is_silent = bool(silent and silent.pop())
            if is_taken or not is_silent:
                there.append(Path(words[-1]).stem)
            if is_silent:
                raise SlurmAway("sbatch does not answer within 30 s")
        elif silent:
            silent.pop()
            raise SlurmAway("squeue does not answer within 30 s")
        return "".join(f"impala-{one}-{record.run_id}|7|PENDING|None|\n" for one in there)

    monkeypatch.setattr(queue, "run", slurm)
    chosen, settings = options.parse(
        ["--backend=slurm", "--learners=1", f"--logdir={tmp_path}", "--transport=tensorflow"]
    )
    made = plan.make_plan(agents.rows_of(chosen), settings, chosen, HERE)
    record = on_slurm.record_of(made, HERE)
    assert on_slurm._submit(made, record, chosen) == ([], set())
    assert there == ["learner-0"]


def test_a_start_waits_for_slurm_before_it_is_checked_and_a_check_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    silent: list[int] = []

    def slurm(*_: str, **__: Any) -> str:
        if silent:
            silent.pop()
            raise SlurmAway("Unable to contact slurm controller")
        return ""

    monkeypatch.setattr(queue, "run", slurm)
    monkeypatch.chdir(tmp_path)
    for action, is_well in (("start", True), ("check", False)):
        silent = [1, 2]
        made = SlurmBackend(*options.parse(["--backend=slurm", "--learners=1", "--action", action]))
        made.prepare()
        assert made.check() == is_well
    assert "or again later" in capsys.readouterr().out


@pytest.mark.parametrize("is_taken", [False, True])
def test_an_object_whose_creation_was_not_answered_is_created_once(tmp_path: Path, is_taken: bool):
    made = planned("--learners=1", "--transport=tensorflow", logdir=str(tmp_path / "run"))

    class Silent:
        """A cluster whose first answer about each object is lost."""

        namespace, context = "lab", "one"

        def __init__(self) -> None:
            self.there: dict[str, Any] = {}
            self.asked: set[str] = set()

        def create(self, one: dict[str, Any]) -> None:
            name = one["kind"] + one["metadata"]["name"]
            is_silent = name not in self.asked
            self.asked.add(name)
            if is_taken or not is_silent:
                if name in self.there:
                    assert one["kind"] == "PersistentVolumeClaim"  # which outlasts runs
                    raise KubernetesFailed("it is there already", 409)
                self.there[name] = one
            if is_silent:
                raise KubernetesAway("the cluster does not answer")

        def find(self, kind: str, name: str) -> dict[str, Any] | None:
            return self.there.get(kind + name)

    cluster: Any = Silent()
    record = on_kubernetes.record_of(made, cluster)
    assert on_kubernetes._create(made, record, Options(), cluster) == ([], set())
    assert len(cluster.there) > 2
