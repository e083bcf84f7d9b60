"""A run on Kubernetes while something fails: the disk of its records, a pod's node."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from cluster.actions.seen import Seen, SeenPart
from cluster.backends.kubernetes import looking, starting, stopping
from cluster.backends.kubernetes.api import KubernetesFailed
from cluster.model import Host, Place
from cluster.options import Options
from cluster.record import Part
from tests.cluster.kubernetes.test_plan import planned
from tests.cluster.slurm.full_disk import full, recorded, running
from user_error import UserError


class Objects:
    """A cluster that has one job of the run."""

    def __init__(self) -> None:
        self.jobs = ["impala-1"]
        self.namespace, self.context = "lab", "one"

    def list(self, kind: str, label: str) -> list[dict[str, Any]]:
        return [{"metadata": {"name": name}} for name in self.jobs if kind == "Job"]

    def delete(self, kind: str, name: str) -> None:
        self.jobs.remove(name)


def test_jobs_are_deleted_anyway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    objects: Any = Objects()
    monkeypatch.setattr(stopping, "write_whole", full)
    monkeypatch.setattr(stopping.looking, "look", running)
    assert stopping.stop(recorded(tmp_path), objects) == 0 and objects.jobs == []
    assert capsys.readouterr().out == "Stopped 1 learner.\n"


def test_the_rest_of_a_team_is_deleted_where_the_cluster_knows_no_team(tmp_path: Path, capsys):
    class WithoutOperator(Objects):
        """A cluster whose API knows no MPIJob, in which a start has created the rest."""

        def __init__(self) -> None:
            super().__init__()
            self.left = ["Service", "NetworkPolicy", "Secret"]

        def list(self, kind: str, label: str) -> list[dict[str, Any]]:
            if kind == "MPIJob":
                raise KubernetesFailed("the server could not find the requested resource", 404)
            return [{"metadata": {"name": kind}} for one in self.left if one == kind]

        def delete(self, kind: str, name: str) -> None:
            self.left.remove(kind)

    cluster: Any = WithoutOperator()
    jobs = (("MPIJob/impala-1-learner", ("learner-0",)),)
    record = dataclasses.replace(recorded(tmp_path), jobs=jobs)
    assert stopping.stop(record, cluster) == 0 and cluster.left == []
    assert capsys.readouterr().out == "Nothing to stop: no process of the run is left.\n"


def test_one_log_that_cannot_be_read_hides_no_other(tmp_path: Path):
    record = recorded(tmp_path)
    parts = [dataclasses.replace(record.parts[0], name=f"learner-{index}") for index in range(2)]
    jobs = (("Job/impala-1", ("learner-0", "learner-1")),)
    record = dataclasses.replace(record, parts=tuple(parts), jobs=jobs)

    class Away:
        """A cluster in which the node of the second pod is away."""

        def list(self, kind: str, label: str) -> list[dict[str, Any]]:
            if kind == "Job":
                return [{"metadata": {"name": "impala-1"}, "spec": {}, "status": {}}]
            return [pod(index) for index in range(2)]

        def log(self, pod: str, **_: Any) -> str:
            if pod == "pod-1":
                raise KubernetesFailed("dial tcp: no route to host", 502)
            return "2026-11-25T10:00:00Z here\n"

    def pod(index: int) -> dict[str, Any]:
        labels = {looking.OWNERS[0]: "impala-1", looking.INDEX: str(index)}
        return {
            "metadata": {"name": f"pod-{index}", "labels": labels},
            "spec": {},
            "status": {"phase": "Running"},
        }

    away: Any = Away()
    found = looking.tail(record, {"learner-0": -1000, "learner-1": -1000}, away)
    assert found.texts["learner-0"][0] == "here\n" and found.texts["learner-1"] == ("", -1000)
    assert found.silent == {"learner-1": "dial tcp: no route to host"}
    assert found.alive == {"learner-0", "learner-1"}


def test_a_start_with_damaged_credentials_keeps_the_former_record(tmp_path: Path):
    made, before = planned("--learners=1", logdir=str(tmp_path / "run")), "the former run's"
    for path, text in ("credentials/learner.pem", "damaged"), ("cluster/run.json", before):
        (tmp_path / "run" / path).parent.mkdir(parents=True)
        (tmp_path / "run" / path).write_text(text)
        (tmp_path / "run" / path).chmod(0o600)
    cluster: Any = Objects()
    with pytest.raises(UserError, match="learner.pem"):
        starting.start(made, Options(), cluster)
    assert (tmp_path / "run" / "cluster" / "run.json").read_text() == before


def test_what_waits_is_stopped_when_the_learners_have_nothing_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
):
    made, stopped = planned("--learners=1", "--actors=1", logdir=str(tmp_path / "run")), []
    monkeypatch.setattr(starting, "_create", lambda *_: ([], set()))
    learner = Part("learner-0", "learner", Place(Host("n1", 22), "", ""))
    seen = SeenPart(learner, "done", last_lines=("All frames are played.",))
    monkeypatch.setattr(starting, "_wait", lambda *_: ([], Seen([seen], {}, {}, {})))
    monkeypatch.setattr(stopping, "stop", lambda record, *_: stopped.append(record.run_id))
    cluster: Any = Objects()
    assert starting.start(made, Options(), cluster) == 0 and len(stopped) == 1
    said = capsys.readouterr().out
    assert "ended at once, without an error:\n  | All frames are played.\n" in said


@pytest.mark.parametrize(
    ("kind", "end", "flags", "code"),
    [
        ("Job", "-actors-1", (), 0),
        ("NetworkPolicy", "-actor", (), 0),
        ("NetworkPolicy", "-actor", ("--transport=tensorflow",), 1),  # the run's only protection
        ("PersistentVolumeClaim", "-logs", (), 1),
        ("Job", "-learner", (), 1),
    ],
)
def test_a_run_that_may_lack_something_lacks_nothing_that_learners_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys, kind: str, end: str, flags, code: int
):
    csv = "job,ip\nlearner,\nactor,n1\nactor,n77\n"
    made = planned(*flags, csv=csv, logdir=str(tmp_path / "run"))
    without: list[set[str]] = []

    class Refuses(Objects):
        """A cluster that takes all but one object."""

        def create(self, one: dict[str, Any]) -> None:
            name = one["metadata"]["name"]
            if one["kind"] == kind and name.endswith(end):
                raise KubernetesFailed("you are not allowed to", 403)
            self.jobs.append(name)

    def look(record: Any, options: Any, refused: set[str], cluster: Any) -> Any:
        without.append(refused)
        learner = Part("learner-0", "learner", Place(Host("n1", 22), "", ""))
        return [], Seen([SeenPart(learner, "running")], {}, {}, {})

    monkeypatch.setattr(starting, "_wait", look)
    monkeypatch.setattr(stopping, "stop", lambda *_: 0)
    cluster: Any = Refuses()
    assert starting.start(made, Options(allow_partial=True), cluster) == code
    said = capsys.readouterr().out
    assert "you are not allowed to" in said
    assert ("the rest keeps running" if code == 0 else "the run is stopped again") in said
    assert without == ([{"actor-1"} if end == "-actors-1" else set()] if code == 0 else [])
