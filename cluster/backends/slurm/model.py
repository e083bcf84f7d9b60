"""The parts of a plan for Slurm: processes, and the jobs that they run in."""

import dataclasses

# Stands for the run's id, which a plan does not have yet.
RUN_ID = "{run_id}"


@dataclasses.dataclass(frozen=True)
class Process:
    """What one keeper runs: an actor, a learner, or the launcher of several learners."""

    name: str
    job: str
    node: str
    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    restarts: int
    parts: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Job:
    """A job of Slurm: its name, its script, and its processes by the number of their task."""

    name: str
    script: str
    processes: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class SlurmPlan:
    """Everything that a start submits."""

    processes: tuple[Process, ...]
    jobs: tuple[Job, ...]
    logdir: str
    links: tuple[tuple[str, str], ...]  # each actor and its learner
    # Inside an allocation: each step's name, and its processes.
    steps: tuple[tuple[str, tuple[str, ...]], ...] = ()
