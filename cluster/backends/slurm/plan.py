"""From rows or numbers to jobs of Slurm: scripts, and what each task in them runs.

Pure functions: nothing is submitted, looked up or written here. Which node a learner gets is known
only when its job starts, so that ``on_host.member`` writes its address down for its actors.
"""

import ipaddress
import os.path
from collections.abc import Sequence
from typing import Any

import credentials
from cluster import agents
from cluster.backends.slurm import allocation, scripts
from cluster.backends.slurm.model import RUN_ID, Process, SlurmPlan
from cluster.inventory.hosts_csv import Row
from cluster.model import Here
from cluster.on_host.member import ADDRESS
from cluster.options import Options, passed_on
from trainer.settings import checks, sizes
from trainer.settings.config import Settings
from user_error import UserError


def make_plan(rows: Sequence[Row], settings: Settings, options: Options, here: Here) -> SlurmPlan:
    """Links actors to learners round-robin, and makes each job's script."""
    agents.refuse(rows, settings, "slurm")
    learners = [row for row in rows if row.job == "learner"]
    actors = [row for row in rows if row.job == "actor" for _ in range(row.count)]
    checks.check_played(settings, range(len(actors)), "the run")
    settings = sizes.filling(settings, len(actors), len(learners))
    checks.check_started(settings)
    if options.container and allocation.own():
        raise UserError(
            "--container is for jobs that this command submits, and it was given inside an "
            "allocation. Leave it out there, or give the command outside."
        )
    if options.learner_resources and len(learners) > 1 and allocation.own():
        raise UserError(
            f"--learner_resources={options.learner_resources}: inside an allocation, several "
            "learners have what it gives each task. Ask salloc for that, and leave the flag out."
        )
    folder = os.path.join(here.folder, settings.run_folder, "cluster")
    is_one_job = scripts.is_one_job(options, actors)
    if is_one_job and len({row.ip for row in actors}) > 1:
        raise UserError(
            f"--one_job: column ip of {options.workers_csv_path} is not the same for all actors, "
            "and they are one part of that job. Make it the same, or leave --one_job out."
        )
    launched = _learners(learners, is_one_job, folder, settings, options, here)
    acting = [
        _actor(index, row, index % len(learners), launched.name, folder, settings, options, here)
        for index, row in enumerate(actors)
    ]
    jobs = scripts.jobs(launched, acting, len(learners), _nodes(learners), folder, options, here)
    links = tuple((one.name, f"learner-{n % len(learners)}") for n, one in enumerate(acting))
    steps = allocation.steps(launched, scripts.by_node(acting)) if allocation.own() else ()
    return SlurmPlan((launched, *acting), tuple(jobs), settings.run_folder, links, tuple(steps))


def _check_network(network: str) -> None:
    try:
        ipaddress.ip_network(network or "0.0.0.0/0", strict=False)
    except ValueError:
        raise UserError(
            f"--mpirun_network={network}: expected a network such as 10.1.0.0/16, in which each "
            "node looks for its own address."
        ) from None


def _networks(network: str) -> list[tuple[str, str]]:
    """What tells MPI which network to use, whether srun or mpirun starts the learners."""
    layers = ("btl", "oob") if network else ()
    return [(f"OMPI_MCA_{layer}_tcp_if_include", network) for layer in layers]


def _nodes(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row.ip for row in rows if row.ip))


def _learners(
    rows: Sequence[Row],
    is_one_job: bool,
    folder: str,
    settings: Settings,
    options: Options,
    here: Here,
) -> Process:
    """One process: a learner, or what starts several as one team."""
    first = rows[0]
    if any((row.env, row.python) != (first.env, first.python) for row in rows):
        raise UserError(
            f"{options.workers_csv_path}: learners of one run need the same columns env and "
            "python, because one command starts all of them."
        )
    _check_network(options.mpirun_network)
    flags = _flags(settings, "learner", credentials.LEARNER, task=0)
    ports = ",".join(str(row.tf_port) for row in rows)
    python = first.python or here.python
    member = ("learner", folder, RUN_ID, ports, options.mpirun_network)
    argv = _member(python, member, (python, here.script, *flags))
    names = tuple(f"learner-{number}" for number in range(len(rows)))
    restarts = options.restart_learners
    nodes = ",".join(_nodes(rows)) or "any"
    if len(rows) == 1:
        return Process(names[0], "learner", nodes, argv, first.env, restarts)
    launch = ("sh", "-c", scripts.launcher([row.ip for row in rows], is_one_job), "learners", *argv)
    env = (*scripts.MPI_ENVIRONMENT, *_networks(options.mpirun_network), *first.env)
    return Process("learners", "learner", nodes, launch, env, restarts, names)


def _actor(
    index: int,
    row: Row,
    learner: int,
    keeper: str,
    folder: str,
    settings: Settings,
    options: Options,
    here: Here,
) -> Process:
    more = {} if row.envs is None else {"envs_per_actor": row.envs}
    # Slurm gives each its own cores, so it shares them with no other actor.
    flags = _flags(settings, "actor", credentials.ACTOR, task=index, actors_on_host=1, **more)
    python = row.python or here.python
    member = ("actor", folder, RUN_ID, f"learner-{learner}", keeper)
    return Process(
        f"actor-{index}",
        "actor",
        row.ip or "any",
        _member(python, member, (python, here.script, *flags)),
        (*row.env, ("CUDA_VISIBLE_DEVICES", "-1")),
        options.restart_actors,
    )


def _member(python: str, words: Sequence[str], command: Sequence[str]) -> tuple[str, ...]:
    return (python, "-m", "cluster.on_host.member", *words, "--", *command)


def _flags(settings: Settings, job: str, file: str, **more: Any) -> list[str]:
    if settings.remote.transport == "secure":
        more["credentials"] = f"{settings.credentials_folder}/{file}"
    return passed_on(
        settings, job_name=job, learner_host=ADDRESS, logdir=settings.run_folder, **more
    )
