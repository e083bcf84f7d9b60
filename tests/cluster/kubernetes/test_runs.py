"""Runs on an emulated API of Kubernetes, whose pods are processes of this machine."""

import json
from pathlib import Path

import pytest
import yaml

from tests.cluster.conftest import wait_for
from tests.cluster.kubernetes import controller
from tests.cluster.kubernetes.controller import JOBS
from tests.cluster.kubernetes.emulator import NAMESPACE, Server
from tests.trainer.levels import Unhurried, level

pytestmark = [
    pytest.mark.skipif(bool(controller.missing()), reason=controller.missing()),
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("kubernetes"),
]
SIZES = ("--batch_size=2", "--unroll_length=10", "--envs_per_actor=2", "--max_batch_wait_s=60")


def test_a_run_starts_is_seen_scaled_and_stopped(frontend):
    run = frontend()
    said = run.start("--learners=1", "--actors=2", "--restart_actors=1")
    assert "Started 1 learner and 2 actors." in said and " --action=stop" in said
    secret = (run.folder / "logs/run/credentials/learner.pem").read_text().splitlines()[1]
    wait_for(lambda: "actor 1 reached" in run.run("logs", "--name=actor-1").stdout)
    assert run.states() == dict.fromkeys(("learner-0", "actor-0", "actor-1"), "running")
    status = run.run("status")
    assert status.returncode == 0 and " n1 " in status.stdout

    # A second start is refused, also from another folder; what fails a check changes nothing.
    again = run.run("start", "--backend=kubernetes", "--learners=1")
    assert again.returncode == 2 and "a run is already running there" in again.stderr
    other = run.run("start", "--backend=kubernetes", "--learners=1", place="docker")
    assert other.returncode == 1 and "it is there already, of a run" in other.stdout
    wrong = run.run("restart", "--backend=kubernetes", "--learners=2")
    assert wrong.returncode == 1 and "Kubeflow's MPI operator" in wrong.stdout
    assert "Nothing was stopped or started." in wrong.stdout

    # Actors come and go; one that is evicted or killed comes back.
    size = {"spec": {"completions": 3, "parallelism": 3}}
    run.server.request("PATCH", f"{JOBS}/impala-run-actors-0", size)
    wait_for(lambda: run.states().get("actor-2") == "running")
    wait_for(lambda: "actor 2 reached" in run.run("status").stdout)
    assert "actor 2 reached" in run.run("logs").stdout
    assert "actor 2 reached" in run.run("logs", "--name=actor-2").stdout
    refused = run.run("logs", "--name=actor-3")
    assert refused.returncode == 2 and "expected one of learner-0, actor-0, actor-1, actor-2." in (
        refused.stderr
    )
    run.nodes.evict(run.pod("actors-0-2"))
    wait_for(lambda: run.pod("actors-0-2").endswith("-b"))
    run.nodes.running[run.pod("actors-0-1")].send(9)
    wait_for(lambda: run.pod("actors-0-1").endswith("-b"))
    size = {"spec": {"completions": 2, "parallelism": 2}}
    run.server.request("PATCH", f"{JOBS}/impala-run-actors-0", size)
    wait_for(lambda: set(run.states()) == {"learner-0", "actor-0", "actor-1"})

    stopped = run.run("stop")
    assert stopped.stdout == "Stopped 1 learner and 2 actors.\n"
    left = [(key[0].plural, key[2]) for key, one in run.server.emulator.objects.items()
            if not one.deleted]  # fmt: skip
    assert left == [("persistentvolumeclaims", "impala-run-logs")]
    assert set(run.states().values()) == {"stopped"}
    assert "Nothing to stop" in run.run("stop").stdout
    printed = said + status.stdout + run.run("start", "--backend=kubernetes", "--learners=1",
                                             "--actors=1", "--dry_run").stdout  # fmt: skip
    assert secret not in printed and "IMPALA TOKEN" not in printed and "kind: Job" in printed


def test_failures_are_told_in_one_line(frontend, tmp_path: Path):
    run = frontend()
    fails = run.run("start", "--backend=kubernetes", "--learners=1", "--actors=1",
                    "--level_name=Fails")  # fmt: skip
    assert fails.returncode in (0, 1)
    if fails.returncode == 0:  # the actor ended after the learner had listened
        wait_for(lambda: run.states()["actor-0"] == "failed: 3")
    else:
        assert "actor-0 on" in fails.stdout and "has nothing to play" in fails.stdout
    run.run("stop")

    def refusal(*flags: str, **env: str) -> str:
        done = run.run("start", "--backend=kubernetes", "--learners=1", *flags, **env)
        assert done.returncode in (1, 2) and "Traceback" not in done.stderr
        return done.stdout + done.stderr

    told = refusal("--namespace=nosuch")
    assert 'namespaces "nosuch" not found' in told and "Nothing was started." in told
    assert "no cluster is configured" in refusal(KUBECONFIG=str(tmp_path / "none"))
    assert "no cluster is configured" in refusal("--kube_context=nosuch")
    for broken in "a: [1, 2\nb: :", "just text":
        (tmp_path / "config").write_text(broken)
        assert "no cluster is configured" in refusal(KUBECONFIG=str(tmp_path / "config"))
    text = (run.folder / "config").read_text().replace(run.server.url, "http://127.0.0.1:9")
    (tmp_path / "config").write_text(text)
    assert "127.0.0.1:9 does not answer" in refusal(KUBECONFIG=str(tmp_path / "config"))
    hidden = tmp_path / "kubernetes"
    hidden.mkdir()
    (hidden / "__init__.py").write_text("raise ImportError")
    told = refusal(PYTHONPATH=str(tmp_path))
    assert "run bin/setup --kubernetes" in told and len(told.splitlines()) == 1
    written = run.run("sync", "--backend=kubernetes", "--learners=2", "--actors=1")
    assert "kubectl apply -k logs/run/cluster/kubernetes" in written.stdout
    assert run.server.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods")["items"] == []


def test_a_run_is_seen_and_stopped_in_its_cluster_whatever_context_is_current(
    frontend, tmp_path: Path
):
    run, other = frontend(), Server(tmp_path)
    run.start("--learners=1")
    config = yaml.safe_load((run.folder / "config").read_text())
    config["clusters"].append({"name": "two", "cluster": {"server": other.url}})
    context = {**config["contexts"][0]["context"], "cluster": "two"}
    config["contexts"].append({"name": "two", "context": context})
    config["current-context"] = "two"
    (run.folder / "config").write_text(yaml.safe_dump(config))
    path = run.folder / "logs/run/cluster/run.json"
    record = path.read_text()
    try:
        assert run.states() == {"learner-0": "running"}
        # An earlier version did not write the context.
        path.write_text(record.replace('"context": "one"', '"context": ""'))
        assert run.states()["learner-0"].startswith("lost")
        assert " running " in run.run("status", "--kube_context=one").stdout
        path.write_text(record)
        assert run.run("stop").stdout == "Stopped 1 learner.\n"
    finally:
        other.close()


def test_a_training_is_resumed_after_an_eviction(frontend):
    run = frontend(True)
    often = ("--checkpoint_every_s=5", "--report_every_s=2")
    flags = (f"--level_name={level(Unhurried)}", *SIZES, *often)
    run.start("--learners=1", "--actors=1", *flags)
    wait_for(lambda: "frames/s" in run.run("logs", "--name=learner-0").stdout, 120)
    wait_for(lambda: " · mean return " in run.run("status").stdout)
    figures = json.loads(run.run("status", "--json").stdout)["figures"]
    assert figures["environment_frames"] > 0 and figures["mean_episode_return"] > 5
    # The learner's pod is shed: it saves, another takes its place and its name, the actor follows.
    run.nodes.evict(run.pod("learner-0"))
    wait_for(lambda: run.pod("learner-0").endswith("-b"), 60)
    resumed = wait_for(lambda: "resum" in run.run("logs", "--name=learner-0").stdout.lower(), 120)
    assert resumed and run.states()["learner-0"] == "running"
    claim = run.nodes.running[run.pod("learner-0")].spec["volumes"][1]
    assert claim["persistentVolumeClaim"]["claimName"] == "impala-run-logs"
    volume = run.folder.parent / "pods" / "claim-impala-run-logs" / "run"
    assert list(volume.glob("checkpoints/*.npz"))
    assert run.run("stop").stdout == "Stopped 1 learner and 1 actor.\n"
