"""The parts of a plan for Kubernetes: manifests, and the processes that their pods run."""

import dataclasses
from typing import Any

# Stands for the run's id, which a plan does not have yet.
RUN_ID = "{run_id}"
# The label by which everything of a run is found again.
RUN_LABEL = "impala/run"
# Where the images have the project, and whom their processes run as: docker/recipe.
PROJECT = "/home/impala/impala"
PYTHON = f"{PROJECT}/.venv/bin/python"
USER = 10001
SSH_PORT = 2222

Manifest = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Process:
    """What one pod runs; for an MPIJob, what its launcher starts in all its pods."""

    name: str
    job: str
    node: str
    parts: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class KubernetesPlan:
    """Everything that a start creates."""

    name: str
    manifests: tuple[Manifest, ...]
    processes: tuple[Process, ...]
    jobs: tuple[tuple[str, tuple[str, ...]], ...]  # KIND/NAME, and its processes by index
    secrets: tuple[tuple[str, str], ...]  # of which name, and the file in it
    logdir: str
