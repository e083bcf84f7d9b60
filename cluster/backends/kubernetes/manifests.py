"""The objects of a run: its jobs, and what their pods need of the cluster."""

from collections.abc import Sequence
from typing import Any

from cluster.backends.kubernetes.model import PROJECT, RUN_ID, RUN_LABEL, SSH_PORT, Manifest
from cluster.backends.kubernetes.pods import Pod, template
from cluster.on_host.pod import ASKED_TO_END

SSH = (
    f"ssh -p {SSH_PORT} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null "
    "-o LogLevel=ERROR"
)
# mpirun starts learners by SSH, which does not pass on the environment of their pods.
PASSED_ON = ("MPLCONFIGDIR", "XDG_CACHE_HOME", "PYTHONUNBUFFERED")
# A pod that a node sheds, and one that was asked to end and has saved, count as no failure.
RETRIED: list[Manifest] = [
    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [ASKED_TO_END]}},
]


def labels(name: str, role: str) -> dict[str, str]:
    """The labels of an object, by which it and its pods are found."""
    return {**selector(name, role), "app.kubernetes.io/name": "impala", RUN_LABEL: RUN_ID}


def selector(name: str, role: str) -> dict[str, str]:
    """What selects the pods of one kind."""
    return {"app.kubernetes.io/instance": name, "app.kubernetes.io/component": role}


def job(name: str, instance: str, pod: Pod, count: int, restarts: int) -> Manifest:
    """A Job of numbered pods; one that fails too often does not end the others."""
    marks = labels(instance, pod.role)
    spec: Manifest = {
        "completionMode": "Indexed",
        "completions": count,
        "parallelism": count,
        "backoffLimitPerIndex": restarts,
        "podFailurePolicy": {"rules": RETRIED},
        "template": template(pod, marks, "Never"),
    }
    return _object("batch/v1", "Job", name, marks, spec)


def mpi_job(
    name: str, instance: str, first: Pod, other: Pod, count: int, restarts: int
) -> Manifest:
    """Kubeflow's job of several learners; the first one runs where mpirun does."""
    marks = labels(instance, "learner")
    spec: Manifest = {
        "slotsPerWorker": 1,
        "runLauncherAsWorker": True,
        "launcherCreationPolicy": "WaitForWorkersReady",
        "mpiImplementation": "OpenMPI",
        "sshAuthMountPath": "/home/impala/.ssh",
        "runPolicy": {"cleanPodPolicy": "Running", "backoffLimit": restarts},
        "mpiReplicaSpecs": {
            "Launcher": _replicas(first, marks, 1, "OnFailure"),
            "Worker": _replicas(other, marks, count - 1, "Always"),
        },
    }
    return _object("kubeflow.org/v2beta1", "MPIJob", name, marks, spec)


def _replicas(pod: Pod, marks: dict[str, str], count: int, restart: str) -> Manifest:
    made = template(pod, marks, restart)
    del made["spec"]["restartPolicy"]  # the operator takes it from beside the template
    return {"replicas": count, "restartPolicy": restart, "template": made}


def mpirun(count: int, command: Sequence[str]) -> tuple[str, ...]:
    """The launcher's command, which starts a learner in each pod of the team."""
    words = ["mpirun", "-tag-output", "-mca", "odls_base_sigkill_timeout", "5"]
    words += ["-mca", "plm_rsh_agent", SSH, "-wdir", PROJECT]
    for name in PASSED_ON:
        words += ["-x", name]
    return (*words, "-np", str(count), "-bind-to", "none", "-map-by", "slot", *command)


def service(name: str, instance: str, ports: Sequence[int]) -> Manifest:
    """A name for the learner; also before it is ready, because its actors wait for it."""
    spec: Manifest = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": selector(instance, "learner"),
        "ports": [{"name": f"port-{port}", "port": port} for port in dict.fromkeys(ports)],
    }
    return _object("v1", "Service", name, labels(instance, "learner"), spec)


def claim(name: str, instance: str, size: str, storage_class: str) -> Manifest:
    """A volume for the run's folder, which outlasts the run."""
    spec: Manifest = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
    }
    if storage_class:
        spec["storageClassName"] = storage_class
    # Without the run's label: the next run continues from what is in it.
    marks = {**selector(instance, "learner"), "app.kubernetes.io/name": "impala"}
    return _object("v1", "PersistentVolumeClaim", name, marks, spec)


def policies(instance: str, ports: Sequence[int], is_team: bool) -> list[Manifest]:
    """Who may connect: actors to learners, learners of a team to each other, nobody to actors."""
    learners = {"podSelector": {"matchLabels": selector(instance, "learner")}}
    actors = {"podSelector": {"matchLabels": selector(instance, "actor")}}
    open_ports = [{"port": port, "protocol": "TCP"} for port in dict.fromkeys(ports)]
    names = [{"port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]
    ingress: list[Any] = [{"from": [actors], "ports": open_ports}]
    if is_team:
        ingress.append({"from": [learners]})
    of_learners = {**learners, "policyTypes": ["Ingress"], "ingress": ingress}
    egress = [{"to": [learners], "ports": open_ports}, {"ports": names}]
    of_actors = {**actors, "policyTypes": ["Ingress", "Egress"], "egress": egress}
    return [
        _object("networking.k8s.io/v1", "NetworkPolicy", f"{instance}-{role}",
                labels(instance, role), spec)
        for role, spec in (("learner", of_learners), ("actor", of_actors))
    ]  # fmt: skip


def _object(version: str, kind: str, name: str, marks: dict[str, str], spec: Manifest) -> Manifest:
    head = {"apiVersion": version, "kind": kind}
    return {**head, "metadata": {"name": name, "labels": marks}, "spec": spec}
