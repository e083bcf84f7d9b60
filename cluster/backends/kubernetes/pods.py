"""The template of a pod: what it runs, as whom, with which files, and how its health is asked."""

import dataclasses
from collections.abc import Sequence

from cluster.backends.kubernetes.model import PROJECT, PYTHON, SSH_PORT, USER, Manifest
from cluster.backends.kubernetes.resources import Resources
from cluster.on_host.pod import PRIVATE, SECRETS

# What libraries write to a home goes to the pod's own folder: everything else is read-only.
ENVIRONMENT = {"MPLCONFIGDIR": "/tmp", "XDG_CACHE_HOME": "/tmp", "PYTHONUNBUFFERED": "1"}
# docker/health takes a container for healthy before its entrypoint has said what it is for.
IS_HEALTHY = f"[ -e /tmp/impala-promise ] && exec {PYTHON} {PROJECT}/docker/health"
HEALTH = {"exec": {"command": ["sh", "-c", IS_HEALTHY]}, "timeoutSeconds": 10}
LISTENS = {"tcpSocket": {"port": SSH_PORT}}
# A learner may take so long to open its port, for example while it reads a checkpoint.
STARTS_WITHIN_S = 600


@dataclasses.dataclass(frozen=True)
class Pod:
    """What differs between the pods of a run."""

    role: str
    image: str
    command: tuple[str, ...]
    asked: Resources
    grace_s: int
    env: tuple[tuple[str, str], ...] = ()
    secret: str = ""
    claim: str = ""
    service: str = ""
    node: str = ""
    is_of_team: bool = False
    has_sshd_only: bool = False


def template(pod: Pod, labels: dict[str, str], restart: str) -> Manifest:
    """The template of a Job or of an MPIJob."""
    volumes = _volumes(pod)
    spec: Manifest = {
        "restartPolicy": restart,
        "terminationGracePeriodSeconds": pod.grace_s,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        # Processes that lose their parent are then looked after.
        "shareProcessNamespace": True,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(pod, volumes)],
        "volumes": [{"name": name, **source} for name, source, _ in volumes],
    }
    nodes = {**pod.asked.nodes, **({"kubernetes.io/hostname": pod.node} if pod.node else {})}
    more = {"nodeSelector": nodes, "tolerations": pod.asked.tolerations, "subdomain": pod.service}
    spec.update({name: value for name, value in more.items() if value})
    return {"metadata": {"labels": labels}, "spec": spec}


def _container(pod: Pod, volumes: Sequence[tuple[str, Manifest, str]]) -> Manifest:
    env = {**ENVIRONMENT, **dict(pod.env)}
    found: Manifest = {
        "name": pod.role,
        "image": pod.image,
        "workingDir": PROJECT,
        "command": [_literal(word) for word in pod.command],
        "env": [{"name": name, "value": _literal(value)} for name, value in env.items()],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": name, "mountPath": path} for name, _, path in volumes],
        **_probes(pod),
    }
    if pod.role == "learner":
        address = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
        found["env"].append(address)
    if pod.asked.container:
        found["resources"] = pod.asked.container
    return found


def _literal(text: str) -> str:
    """Text in which Kubernetes finds no variable of its own, such as $(HOME)."""
    return text.replace("$", "$$")


def _probes(pod: Pod) -> Manifest:
    if pod.has_sshd_only:
        return {"readinessProbe": {**LISTENS, "periodSeconds": 5}}
    ready: Manifest = {"readinessProbe": {**HEALTH, "periodSeconds": 15}}
    if pod.role == "actor":  # one that waits for its learner must not be ended
        return ready
    starts = {**HEALTH, "periodSeconds": 5, "failureThreshold": STARTS_WITHIN_S // 5}
    lives = {**HEALTH, "periodSeconds": 30, "failureThreshold": 4}
    return {"startupProbe": starts, **ready, "livenessProbe": lives}


def _volumes(pod: Pod) -> list[tuple[str, Manifest, str]]:
    """Name, source and place of each volume."""
    found: list[tuple[str, Manifest, str]] = [("tmp", {"emptyDir": {}}, "/tmp")]
    if pod.claim:
        claim = {"persistentVolumeClaim": {"claimName": pod.claim}}
        found.append(("logs", claim, f"{PROJECT}/logs"))
    if pod.secret:
        secret = {"secretName": pod.secret, "defaultMode": 0o440}
        memory = {"medium": "Memory", "sizeLimit": "1Mi"}
        found.append(("secret", {"secret": secret}, SECRETS))
        found.append(("private", {"emptyDir": memory}, PRIVATE))
    if pod.is_of_team:
        # Learners in one pod exchange gradients through it, and sshd keeps its key in a folder.
        found.append(("shm", {"emptyDir": {"medium": "Memory"}}, "/dev/shm"))
        found.append(("sshd", {"emptyDir": {}}, "/home/impala/.sshd"))
    return found
