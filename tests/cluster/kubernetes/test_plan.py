"""Plans for Kubernetes: the manifests for which flags and rows, without any cluster."""

import base64
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from cluster import agents, options
from cluster.backends.kubernetes import folder, looking, plan, resources
from cluster.backends.kubernetes.model import KubernetesPlan
from cluster.backends.kubernetes.starting import make_credentials
from cluster.inventory import hosts_csv
from cluster.on_host import pod
from cluster.record import Record
from tests.cluster.kubernetes.controller import expanded
from tests.cluster.kubernetes.mpijob_schema import SCHEMA
from user_error import UserError

RESOURCES = (
    "--learner_resources=cpu=8 memory=16Gi nvidia.com/gpu=1 node:pool=gpu",
    "--actor_resources=cpu=500m tolerate:spot=true:NoSchedule tolerate:cheap",
)


def planned(*flags: str, csv: str = "", logdir: str = "logs/run") -> KubernetesPlan:
    chosen, settings = options.parse(["--backend=kubernetes", f"--logdir={logdir}", *flags])
    rows = hosts_csv.parse(csv.encode(), "pods.csv", of_nodes=True) if csv else []
    return plan.make_plan(rows or agents.rows_of(chosen), settings, chosen)


def of_kind(made: KubernetesPlan, kind: str) -> list[dict[str, Any]]:
    return [one for one in folder.of_run(made, "run-1") if one["kind"] == kind]


def validate(manifest: dict[str, Any]) -> None:
    """Checks a manifest strictly; of an MPIJob its own schema, and its templates as pods."""
    if manifest["kind"] != "MPIJob":
        kubernetes_validate.validate(manifest, "1.37", strict=True)
        return
    jsonschema.validate(manifest, SCHEMA)
    for name, replicas in manifest["spec"]["mpiReplicaSpecs"].items():
        template = replicas["template"]
        metadata = {"name": name.lower(), **template["metadata"]}
        one = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
        kubernetes_validate.validate(one, "1.37", strict=True)


@pytest.mark.parametrize("learners", [1, 2, 8])
@pytest.mark.parametrize("flags", [(), RESOURCES, ("--transport=tensorflow", "--storage_class=x")])
def test_every_manifest_is_what_kubernetes_takes(learners: int, flags: tuple[str, ...]):
    made = planned(f"--learners={learners}", "--actors=16", *flags)
    manifests = folder.of_run(made, "run-1")
    for one in manifests:
        validate(one)
    kinds = [one["kind"] for one in manifests]
    assert kinds.count("MPIJob") == int(learners > 1)
    assert kinds.count("Service") == int(learners == 1)
    names = [f"{one['kind']}/{one['metadata']['name']}" for one in manifests]
    assert len(set(names)) == len(names)


def test_a_wrong_manifest_is_noticed():
    [job] = of_kind(planned("--learners=2"), "MPIJob")
    job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["nosuch"] = 1
    with pytest.raises(kubernetes_validate.ValidationError, match="nosuch"):
        validate(job)
    [job] = of_kind(planned("--learners=2"), "MPIJob")
    job["spec"]["slots"] = 1
    with pytest.raises(jsonschema.ValidationError, match="slots"):
        validate(job)


def test_pods_have_no_rights_and_save_before_they_end():
    for count in (1, 2):
        made = planned(f"--learners={count}", "--actors=1", *RESOURCES)
        for spec in map(_pod_spec, _templates(made)):
            [container] = spec["containers"]
            assert spec["securityContext"]["runAsNonRoot"]
            assert spec["securityContext"]["runAsUser"] == 10001
            assert not spec["automountServiceAccountToken"]
            rights = container["securityContext"]
            assert rights["readOnlyRootFilesystem"] and rights["capabilities"] == {"drop": ["ALL"]}
            assert not rights["allowPrivilegeEscalation"]
            is_learner = container["name"] == "learner"
            assert spec["terminationGracePeriodSeconds"] == (60 if is_learner else 15)
            assert ("livenessProbe" in container) <= is_learner
            assert "readinessProbe" in container


def _templates(made: KubernetesPlan) -> list[dict[str, Any]]:
    jobs = [one["spec"]["template"] for one in of_kind(made, "Job")]
    for one in of_kind(made, "MPIJob"):
        jobs += [each["template"] for each in one["spec"]["mpiReplicaSpecs"].values()]
    return jobs


def _pod_spec(template: dict[str, Any]) -> dict[str, Any]:
    return template["spec"]


def test_learners_and_actors_ask_for_what_was_given():
    made = planned("--learners=1", "--actors=64", *RESOURCES)
    learner, actors = (one["spec"]["template"]["spec"] for one in of_kind(made, "Job"))
    asked = learner["containers"][0]["resources"]
    assert asked["requests"] == {"cpu": "8", "memory": "16Gi", "nvidia.com/gpu": "1"}
    assert asked["limits"] == {"memory": "16Gi", "nvidia.com/gpu": "1"}
    assert learner["nodeSelector"] == {"pool": "gpu"}
    assert actors["tolerations"] == [
        {"key": "spot", "operator": "Equal", "value": "true", "effect": "NoSchedule"},
        {"key": "cheap", "operator": "Exists"},
    ]
    assert of_kind(made, "Job")[1]["spec"]["completions"] == 64


def test_a_team_runs_under_one_mpirun_and_its_actors_know_each_learner():
    made = planned("--learners=3", "--actors=4")
    [job] = of_kind(made, "MPIJob")
    specs = job["spec"]["mpiReplicaSpecs"]
    assert specs["Worker"]["replicas"] == 2 and job["spec"]["runLauncherAsWorker"]
    [container] = specs["Launcher"]["template"]["spec"]["containers"]
    words = container["command"]
    assert words[words.index("-np") + 1] == "3"
    [actors] = of_kind(made, "Job")
    [container] = actors["spec"]["template"]["spec"]["containers"]
    assert (
        "impala-run-learner-launcher.impala-run-learner:8001,"
        "impala-run-learner-worker-0.impala-run-learner:8001,"
        "impala-run-learner-worker-1.impala-run-learner:8001"
    ) in container["command"]
    assert made.processes[0].parts == ("learner-0", "learner-1", "learner-2")


def test_a_learner_of_gradients_is_one_pod():
    made = planned("--learners=1", "--actors=2", "--algorithm=a3c")
    learner = of_kind(made, "Job")[0]
    validate(learner)
    assert learner["spec"]["completions"] == 1 and not of_kind(made, "MPIJob")


def test_rows_with_nodes_of_their_own_are_jobs_of_their_own():
    csv = "job,ip,count,envs,env\nlearner,g1,,,\nactor,,2,,\nactor,c1,3,8,A=b\n"
    made = planned(csv=csv)
    learner, some, others = (one["spec"] for one in of_kind(made, "Job"))
    assert learner["template"]["spec"]["nodeSelector"] == {"kubernetes.io/hostname": "g1"}
    assert (some["completions"], others["completions"]) == (2, 3)
    [container] = others["template"]["spec"]["containers"]
    assert "--envs_per_actor=8" in container["command"]
    assert {"name": "A", "value": "b"} in container["env"]
    assert made.jobs[2][1] == ("actor-2", "actor-3", "actor-4")


def test_what_kubernetes_would_take_for_a_variable_arrives_as_it_is():
    value = "$(HOME) $$ $x $"
    csv = f"job,env\nlearner,A={value}\nlearner,A={value}\nactor,A={value}\n"
    for rows in (csv, csv.replace("learner,", "#", 1)):
        for template in _templates(planned(f"--wrappers={value}", csv=rows)):
            [container] = _pod_spec(template)["containers"]
            env = {one["name"]: one.get("value", "") for one in container["env"]}
            assert expanded(env["A"], {}) == value
            words = [expanded(word, {"HOME": "no"}) for word in container["command"]]
            assert "sshd" in words or f"--wrappers={value}" in words


def test_actors_are_numbered_through_and_linked_round_robin(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "1")
    values = pod.values_of("actor", ["a:1,b:1", "2"], ["x"])
    assert values == {"{address}": "b:1", "{task}": "3"}
    monkeypatch.setenv("POD_IP", "fd00::1")
    values = pod.values_of("learner", ["8001"], ["x"])
    assert values == {"{address}": "[fd00::1]:8001", "{task}": "1"}


def test_a_pod_that_is_asked_to_end_is_started_again_by_its_job():
    command = [sys.executable, "-m", "cluster.on_host.pod", "learner", "1", "--", "sh", "-c"]
    saves = "trap 'echo saved; exit 0' TERM; echo ready; sleep 60 >/dev/null 2>&1 & wait"
    with subprocess.Popen([*command, saves], stdout=subprocess.PIPE, text=True) as asked:
        assert asked.stdout and asked.stdout.readline() == "ready\n"
        asked.terminate()
        assert asked.communicate(timeout=30)[0] == "saved\n"
    assert asked.returncode == pod.ASKED_TO_END
    assert subprocess.run([*command, "exit 3"], check=False).returncode == 3
    [job] = of_kind(planned("--learners=1"), "Job")
    [_, rule] = job["spec"]["podFailurePolicy"]["rules"]
    assert rule["action"] == "Ignore" and rule["onExitCodes"]["values"] == [pod.ASKED_TO_END]


def test_a_secret_is_copied_for_its_user_alone(tmp_path: Path):
    (tmp_path / "mounted").mkdir()
    (tmp_path / "private").mkdir()
    (tmp_path / "mounted" / "actor.pem").write_text("hush")
    for _ in range(2):  # a container that starts again finds the first copy
        copy = pod.copy_secret(tmp_path / "mounted", tmp_path / "private")
        assert Path(copy).read_text() == "hush" and os.stat(copy).st_mode & 0o777 == 0o600


def test_actors_in_step_fill_a_batch_together():
    made = planned("--learners=1", "--actors=4", "--algorithm=ppo", "--batch_size=8")
    [actors] = [one for one in of_kind(made, "Job") if one["metadata"]["name"].endswith("actors-0")]
    command = actors["spec"]["template"]["spec"]["containers"][0]["command"]
    assert "--envs_per_actor=2" in command


@pytest.mark.skipif(not shutil.which("kubectl"), reason="needs kubectl")
def test_the_folder_is_what_kubectl_takes(tmp_path: Path):
    made = planned("--learners=2", "--actors=3", logdir=str(tmp_path / "Pong 1"))
    make_credentials(made)
    written = folder.write(made, "by-hand", "lab")
    done = subprocess.run(
        ["kubectl", "kustomize", str(written)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    built = list(yaml.safe_load_all(done.stdout))
    assert {one["metadata"]["namespace"] for one in built} == {"lab"}
    secrets = {one["metadata"]["name"]: one for one in built if one["kind"] == "Secret"}
    assert set(secrets) == {f"{made.name}-learner", f"{made.name}-actor"}
    text = base64.b64decode(secrets[f"{made.name}-actor"]["data"]["actor.pem"]).decode()
    assert "IMPALA TOKEN" in text and "PRIVATE KEY" not in text
    for one in built:
        validate(one)
    for file in written.glob("*.yaml"):
        assert "IMPALA TOKEN" not in file.read_text()
    assert os.stat(written / "credentials" / "learner.pem").st_mode & 0o077 == 0


def test_the_transport_is_secure_unless_another_is_given(tmp_path: Path):
    def words(*flags: str) -> set[str]:
        templates = _templates(planned("--learners=1", "--actors=1", *flags))
        said = [word for one in templates for word in one["spec"]["containers"][0]["command"]]
        return {word for word in said if word.startswith(("--transport", "--credentials"))}

    assert words() == {"--transport=secure", "--credentials={credentials}"}
    assert words("--transport=tensorflow") == set()
    # Settings of a run name also what nobody has chosen.
    (tmp_path / "settings.json").write_text('{"transport": "tensorflow"}')
    file = f"--config={tmp_path}/settings.json"
    assert words(file) == words() and words(file, "--transport=tensorflow") == set()


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ([], "say what to start, by --learners=1 --actors=8, or by a CSV"),
        (["--learners=1", "--actor_resources=--mem=1G"], "'--mem=1G' is not understood"),
        (["--learners=1", "--learner_resources=memory=lots"], "'memory=lots' is not understood"),
        (["--learners=1", "--actor_resources=tolerate:a=b:Never"], "names no taint"),
        (["--learners=1", "--learner_resources=cpu='1"], "a quotation mark is not closed"),
        (["--learners=1", "--actors=1", "--level_name=a,b"], "--level_name names 2 levels, but"),
        (["--learners=1", "--storage=much"], "--storage=much: expected an amount such as 10Gi"),
        (["--learners=1", "--namespace=A B"], "--namespace=A B: expected small letters"),
        (["--learners=1", "--namespace=a.b"], "--namespace=a.b: expected small letters"),
        (["--learners=1", "--storage_class=a/b"], "--storage_class=a/b: expected small letters"),
        (["--learners=1", "--one_job"], "--one_job is for --backend=slurm"),
        (
            ["--learners=1", "--actors=1", "--level_name=vnc:Catch-v0"],
            "--level_name=vnc:Catch-v0: images for Kubernetes have no TigerVNC, so actors",
        ),
        # A learner of theirs knows its own address only when its pod runs, its peers' by name.
        (["--learners=2", "--algorithm=a3c"], "--algorithm=a3c exchange gradients without it"),
    ],
)
def test_a_wrong_flag_is_told(flags: list[str], told: str):
    with pytest.raises(UserError) as error:
        planned(*flags)
    assert told in str(error.value) and "\n" not in str(error.value)


def test_actors_play_on_desktops_that_run_elsewhere():
    elsewhere = "--remotes=10.0.0.1:5900+15900"
    made = planned("--learners=1", "--actors=1", "--level_name=vnc:Catch-v0", elsewhere)
    [container] = of_kind(made, "Job")[1]["spec"]["template"]["spec"]["containers"]
    assert elsewhere in container["command"]


def test_flags_of_kubernetes_are_refused_elsewhere():
    with pytest.raises(UserError, match="--namespace is for --backend=kubernetes"):
        options.parse(["--workers_csv_path=x", "--namespace=lab"])


@pytest.mark.parametrize(
    ("csv", "told"),
    [
        ("job,python\nlearner,python3\n", "column python: leave it empty"),
        ("job,ip\nlearner,a\nlearner,b\n", "need the same columns ip, env and tf_port"),
    ],
)
def test_a_wrong_row_is_told(csv: str, told: str):
    with pytest.raises(UserError, match=told):
        planned(csv=csv)


@pytest.mark.parametrize(
    ("logdir", "name"),
    [
        ("logs/pong-1/", "impala-pong-1"),
        ("logs/Pong_1/", "impala-pong-1-......"),
        ("/x/..", "impala-run-......"),
        ("l/ä", "impala-run-......"),
        (f"logs/{'pong-' * 9}1", f"impala-{'pong-' * 6}pon-......"),
    ],
)
def test_objects_have_names_that_are_allowed(logdir: str, name: str):
    assert re.fullmatch(name, plan.name_of(logdir))


def test_no_two_folders_have_objects_of_one_name():
    long = "logs/pong-learning-rate-0.0006-batch-size-32-seed-"
    folders = ["logs/run", "logs/Run", "logs/a/run", "logs/b/run", "/logs/run", "logs/ru_n"]
    folders += ["logs/ru-n", f"{long}1", f"{long}2"]
    assert len({plan.name_of(one) for one in folders}) == len(folders)


def test_a_run_keeps_its_name_whatever_its_folder_is_called(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert plan.name_of(f"{tmp_path}/logs/run") == plan.name_of("logs/run") == "impala-run"
    chosen, settings = options.parse(
        ["--backend=kubernetes", "--logdir=../logs/run", "--learners=1"]
    )
    for name in "impala-run", "impala-of-before":
        jobs = ((f"Job/{name}-learner", ("learner-0",)),)
        before = Record("id", "logs/run", "", (), (), backend="kubernetes", jobs=jobs)
        assert plan.make_plan(agents.rows_of(chosen), settings, chosen, before).name == name


RUNNING = {"metadata": {"labels": {looking.INDEX: "2"}}, "status": {"phase": "Running"}}
FAILED = {
    "metadata": {"labels": {looking.INDEX: "2"}},
    "status": {
        "phase": "Failed",
        "containerStatuses": [{"state": {"terminated": {"exitCode": 3}}}],
    },
}


def waiting(reason: str) -> dict[str, Any]:
    status = {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": reason}}}]}
    return {"metadata": {"labels": {}}, "status": status}


@pytest.mark.parametrize(
    ("job", "one", "stopped", "told"),
    [
        ({}, RUNNING, False, "lost: the cluster has no job of it any more"),
        ({"status": {}}, RUNNING, False, "running"),
        ({"status": {}}, None, False, "waiting, no pod yet"),
        ({"status": {}}, waiting("ImagePullBackOff"), False, "waiting, ImagePullBackOff"),
        ({"status": {}}, waiting("ContainerCreating"), False, "starting"),
        ({"status": {}}, FAILED, False, "waiting, starts again after 3"),
        ({"status": {"failedIndexes": "0,1-4"}}, FAILED, False, "failed: 3"),
        ({"status": {"conditions": [{"type": "Failed", "status": "True"}]}}, None, False, "failed"),
        ({"status": {"conditions": [{"type": "Complete", "status": "True"}]}}, None, False, "done"),
        (None, None, True, "stopped"),
    ],
)
def test_the_cluster_says_whether_a_process_lives(job: Any, one: Any, stopped: bool, told: str):
    assert looking.judged(job, one, stopped) == told


def test_amounts_are_those_of_kubernetes():
    assert resources.parse("cpu=1.5 memory=512Mi hugepages-2Mi=4Mi", "x").requests == {
        "cpu": "1.5", "memory": "512Mi", "hugepages-2Mi": "4Mi",
    }  # fmt: skip
