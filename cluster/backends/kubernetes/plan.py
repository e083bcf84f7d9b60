"""From rows or numbers to manifests for Kubernetes.

Pure functions: nothing is created, looked up or written here.
"""

import hashlib
import itertools
import math
import os.path
import re
from collections.abc import Sequence
from typing import Any

import credentials
from cluster import agents
from cluster.backends.kubernetes import manifests, resources
from cluster.backends.kubernetes.model import (
    PROJECT,
    PYTHON,
    SSH_PORT,
    KubernetesPlan,
    Manifest,
    Process,
)
from cluster.backends.kubernetes.pods import Pod
from cluster.inventory.hosts_csv import Row
from cluster.mpi_environment import ENVIRONMENT
from cluster.on_host.member import ADDRESS
from cluster.on_host.pod import CREDENTIALS, TASK
from cluster.options import Options, passed_on
from cluster.record import Record
from trainer.machine.launching import typed
from trainer.settings import checks, sizes
from trainer.settings.config import Settings
from user_error import UserError

PORT = 8001
# A learner's checkpoint is written before it is killed, also to a slow volume.
LEARNER_GRACE_S = 60
LONGEST_NAME = 40
NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
CLASS = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
NUMBER = 6  # letters that tell apart what looks alike
# Kubernetes itself retries a Job so often. An MPIJob counts evictions, too.
TEAM_RESTARTS = 6


def make_plan(
    rows: Sequence[Row], settings: Settings, options: Options, before: Record | None = None
) -> KubernetesPlan:
    """Links actors to learners round-robin, and makes every manifest.

    A run that was there ``before`` keeps its volume, whatever its folder is called now.
    """
    agents.refuse(rows, settings, "kubernetes")
    learners = [row for row in rows if row.job == "learner"]
    actors = [row for row in rows if row.job == "actor" for _ in range(row.count)]
    _check(rows, len(actors), settings, options)
    settings = sizes.filling(settings, len(actors), len(learners))
    checks.check_started(settings)
    name = name_of(settings.run_folder)
    if before and before.backend == "kubernetes":
        name = name_of_run(before)
    is_team = len(learners) > 1
    ports = [row.tf_port or PORT for row in learners]
    addresses = _addresses(f"{name}-learner", ports, is_team)
    learning = _learning(name, learners, addresses, is_team, settings, options)
    acting = _acting(name, actors, addresses, settings, options)
    made = [manifests.claim(f"{name}-logs", name, options.storage, options.storage_class)]
    if not is_team:  # the operator makes the one of an MPIJob
        made.append(manifests.service(f"{name}-learner", name, ports))
    made += manifests.policies(name, ports, is_team)
    made += [learning, *(one for one, _ in acting)]
    names = tuple(f"learner-{number}" for number in range(len(learners)))
    nodes = ",".join(dict.fromkeys(row.ip for row in learners if row.ip)) or "any"
    team = [Process("learners", "learner", nodes, names)]
    processes = team if is_team else [Process(names[0], "learner", nodes)]
    jobs = [(key_of(learning), tuple(one.name for one in processes))]
    for one, numbers in acting:
        jobs.append((key_of(one), tuple(f"actor-{number}" for number in numbers)))
    processes += [Process(f"actor-{n}", "actor", row.ip or "any") for n, row in enumerate(actors)]
    return KubernetesPlan(
        name, tuple(made), tuple(processes), tuple(jobs), _secrets(name, settings),
        settings.run_folder,
    )  # fmt: skip


def name_of_run(record: Record) -> str:
    """The name of the objects of a run that has been started."""
    return record.jobs[0][0].partition("/")[2].removesuffix("-learner")


def name_of(logdir: str) -> str:
    """The name of a run's objects, in the letters that Kubernetes allows.

    Folders of other names than ``logs/`` and such letters have a number, as two of them may look
    alike without it.
    """
    whole = os.path.normpath(typed(logdir))
    words = re.sub("[^a-z0-9]+", "-", os.path.basename(whole).lower()).strip("-")
    if whole != f"logs/{words}" or len(words) > LONGEST_NAME:
        number = hashlib.sha256(whole.encode()).hexdigest()[:NUMBER]
        words = f"{words[: LONGEST_NAME - NUMBER - 1].strip('-') or 'run'}-{number}"
    return f"impala-{words}"


def folder_of(name: str) -> str:
    """Where a pod has the folder of the run whose objects have this name."""
    return f"logs/{name.removeprefix('impala-')}"


def _check(rows: Sequence[Row], actors: int, settings: Settings, options: Options) -> None:
    checks.check_played(settings, range(actors), "the run")
    if settings.level.is_on_desktops and not settings.actors.remotes:
        raise UserError(
            f"--level_name={settings.level.level_name}: images for Kubernetes have no TigerVNC, "
            "so actors cannot start desktops there. Use --backend=ssh or --backend=slurm instead."
        )
    of_learners = [(row.ip, row.env, row.tf_port) for row in rows if row.job == "learner"]
    if len(set(of_learners)) > 1:
        raise UserError(
            f"{options.workers_csv_path}: learners of one run need the same columns ip, env and "
            "tf_port, because they are the pods of one job."
        )
    for row in rows:
        if row.python:
            raise UserError(
                f"{options.workers_csv_path}:{row.line}: column python: leave it empty: the "
                "image has its own."
            )
    if not resources.QUANTITY.fullmatch(options.storage):
        raise UserError(f"--storage={options.storage}: expected an amount such as 10Gi.")
    if options.namespace and not NAMESPACE.fullmatch(options.namespace):
        raise UserError(
            f"--namespace={options.namespace}: expected small letters, digits and hyphens."
        )
    if options.storage_class and not CLASS.fullmatch(options.storage_class):
        raise UserError(
            f"--storage_class={options.storage_class}: expected small letters, digits, hyphens "
            "and dots."
        )


def _addresses(job: str, ports: Sequence[int], is_team: bool) -> list[str]:
    """Where learners are found: their pods' names below that of their service."""
    hosts = [f"{job}-{index}" for index in range(len(ports))]
    if is_team:
        hosts = [f"{job}-launcher", *(f"{job}-worker-{n}" for n in range(len(ports) - 1))]
    return [f"{host}.{job}:{port}" for host, port in zip(hosts, ports, strict=True)]


def _learning(
    name: str,
    rows: Sequence[Row],
    addresses: Sequence[str],
    is_team: bool,
    settings: Settings,
    options: Options,
) -> Manifest:
    """The learner's job, or that of a team under one mpirun."""
    port = addresses[0].rpartition(":")[2]
    flags = _command(name, settings, "learner", task=0)
    command = _member(("learner", port), flags)
    given: dict[str, Any] = {
        "role": "learner",
        "image": options.learner_image,
        "asked": resources.parse(options.learner_resources, "learner_resources"),
        "grace_s": max(LEARNER_GRACE_S, math.ceil(options.stop_grace_s)),
        "env": rows[0].env,
        "secret": f"{name}-learner" if settings.remote.transport == "secure" else "",
        "node": rows[0].ip,
    }
    logs, restarts = f"{name}-logs", options.restart_learners
    if not is_team:
        pod = Pod(**given, command=command, claim=logs, service=f"{name}-learner")
        return manifests.job(f"{name}-learner", name, pod, 1, restarts)
    given["env"] = (*ENVIRONMENT.items(), *rows[0].env)
    given["is_of_team"] = True
    launch = _member(("team",), manifests.mpirun(len(rows), command))
    waits = (f"{PROJECT}/docker/entrypoint", "sshd", str(SSH_PORT))
    return manifests.mpi_job(
        f"{name}-learner",
        name,
        Pod(**given, command=launch, claim=logs),
        Pod(**given, command=waits, has_sshd_only=True),
        len(rows),
        max(TEAM_RESTARTS, restarts),
    )


def _acting(
    name: str,
    rows: Sequence[Row],
    addresses: Sequence[str],
    settings: Settings,
    options: Options,
) -> list[tuple[Manifest, range]]:
    """A job for each group of equal actors, and their numbers."""
    asked = resources.parse(options.actor_resources, "actor_resources")
    found = []
    groups = itertools.groupby(enumerate(rows), key=lambda one: id(one[1]))
    for number, (_, members) in enumerate(groups):
        (first, row), *others = members
        more = {} if row.envs is None else {"envs_per_actor": row.envs}
        flags = _command(name, settings, "actor", task=TASK, actors_on_host=1, **more)
        pod = Pod(
            role="actor",
            image=options.actor_image,
            command=_member(("actor", ",".join(addresses), str(first)), flags),
            asked=asked,
            grace_s=math.ceil(options.stop_grace_s),
            env=(*row.env, ("CUDA_VISIBLE_DEVICES", "-1")),
            secret=f"{name}-actor" if settings.remote.transport == "secure" else "",
            node=row.ip,
        )
        count = len(others) + 1
        made = manifests.job(f"{name}-actors-{number}", name, pod, count, options.restart_actors)
        found.append((made, range(first, first + count)))
    return found


def _member(words: Sequence[str], command: Sequence[str]) -> tuple[str, ...]:
    return (PYTHON, "-m", "cluster.on_host.pod", *words, "--", *command)


def _command(name: str, settings: Settings, job: str, **more: Any) -> list[str]:
    if settings.remote.transport == "secure":
        more["credentials"] = CREDENTIALS
    place = {"job_name": job, "learner_host": ADDRESS, "logdir": folder_of(name)}
    flags = passed_on(settings, **place, **more)
    return [f"{PROJECT}/docker/entrypoint", *flags]


def _secrets(name: str, settings: Settings) -> tuple[tuple[str, str], ...]:
    if settings.remote.transport != "secure":
        return ()
    return ((f"{name}-learner", credentials.LEARNER), (f"{name}-actor", credentials.ACTOR))


def key_of(manifest: Manifest) -> str:
    """By which a record and a plan name a job."""
    return f"{manifest['kind']}/{manifest['metadata']['name']}"
