"""A volume that is there before a start, in an emulated API of Kubernetes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import options, record
from cluster.backends.kubernetes.api import Cluster
from cluster.backends.kubernetes.backend import KubernetesBackend
from cluster.record import Record
from tests.cluster.kubernetes.emulator import NAMESPACE, Server
from tests.cluster.kubernetes.test_plan import of_kind, planned
from user_error import UserError


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """One that has a volume of the name that logs/run gives, of 10Gi."""
    made = Server(tmp_path)
    made.write_config(tmp_path / "config")
    config = "kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION"
    monkeypatch.setattr(config, str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    [claim] = of_kind(planned("--learners=1", "--storage_class=slow"), "PersistentVolumeClaim")
    made.request("POST", f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims", claim)
    yield made
    made.close()


def problem(capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    """What a check says of the volume; nothing if it finds no problem."""
    given = ["--backend=kubernetes", "--learners=1", "--logdir=logs/run", *flags]
    made = KubernetesBackend(*options.parse(given))
    made.prepare()
    is_right = made.check()
    said = capsys.readouterr().out
    assert is_right == (not said)
    return said


def recorded(namespace: str) -> None:
    jobs = (("Job/impala-run-learner", ("learner-0",)),)
    run = Record("id", "logs/run", "", (), (), "kubernetes", jobs, namespace=namespace)
    record.write(run, {})


@pytest.mark.usefixtures("server")
def test_a_volume_is_used_only_by_its_own_run(capsys: pytest.CaptureFixture[str]):
    for namespace in "", "another":
        if namespace:
            recorded(namespace)
        told = problem(capsys)
        assert "PersistentVolumeClaim impala-run-logs" in told
        assert "it is there already, of a run that logs/run has no record of" in told
        assert "kubectl -n lab delete pvc impala-run-logs" in told
    recorded(NAMESPACE)
    assert problem(capsys) == ""


@pytest.mark.usefixtures("server")
def test_another_size_or_class_than_a_volume_has_is_told(capsys: pytest.CaptureFixture[str]):
    recorded(NAMESPACE)
    assert problem(capsys, "--storage=10240Mi", "--storage_class=slow") == ""
    told = problem(capsys, "--storage=50Gi")
    assert "of 10Gi, not of --storage=50Gi" in told and "give --storage=10Gi, or change it" in told
    assert "of class slow, not of --storage_class=fast" in problem(capsys, "--storage_class=fast")


@pytest.mark.usefixtures("server")
def test_a_context_that_there_is_not_is_not_the_cluster_of_ones_own_pod(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("kubernetes.config.load_incluster_config", lambda **_: None)
    with pytest.raises(UserError, match="no cluster is configured .*nosuch"):
        Cluster("", "nosuch")
