"""The schema of Kubeflow's MPIJob v2beta1, as its CustomResourceDefinition has it since 0.6.

Written down because it is in no collection of schemas. Pod templates are Kubernetes' own, and
checked by their own schema; nothing else may be in a field.
"""

from typing import Any


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


COUNT = {"type": "integer", "minimum": 0}
TEXT = {"type": "string"}
REPLICAS = _object(
    {
        "replicas": COUNT,
        "restartPolicy": {"enum": ["Always", "OnFailure", "Never", "ExitCode"]},
        "template": {"type": "object"},
    }
)
SCHEDULING = _object(
    {
        "minAvailable": COUNT,
        "minResources": {"type": "object"},
        "priorityClass": TEXT,
        "queue": TEXT,
        "scheduleTimeoutSeconds": COUNT,
    }
)
RUN_POLICY = _object(
    {
        "activeDeadlineSeconds": COUNT,
        "backoffLimit": COUNT,
        "cleanPodPolicy": {"enum": ["All", "Running", "None"]},
        "managedBy": TEXT,
        "schedulingPolicy": SCHEDULING,
        "suspend": {"type": "boolean"},
        "ttlSecondsAfterFinished": COUNT,
    }
)
SPEC = _object(
    {
        "launcherCreationPolicy": {"enum": ["AtStartup", "WaitForWorkersReady"]},
        "mpiImplementation": {"enum": ["OpenMPI", "Intel", "MPICH"]},
        "mpiReplicaSpecs": _object({"Launcher": REPLICAS, "Worker": REPLICAS}, "Launcher"),
        "runLauncherAsWorker": {"type": "boolean"},
        "runPolicy": RUN_POLICY,
        "slotsPerWorker": COUNT,
        "sshAuthMountPath": TEXT,
    },
    "mpiReplicaSpecs",
)
SCHEMA = _object(
    {
        "apiVersion": {"const": "kubeflow.org/v2beta1"},
        "kind": {"const": "MPIJob"},
        "metadata": {"type": "object"},
        "spec": SPEC,
    },
    "apiVersion",
    "kind",
    "metadata",
    "spec",
)
