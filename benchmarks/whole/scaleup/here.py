"""A case on this machine: each learner pinned to a core of its own, actors to none."""

import os
from collections.abc import Callable
from pathlib import Path

from benchmarks.tools.ports import free_ports
from benchmarks.whole.scaleup.cases import Case, Reports, given_flags, training_flags
from benchmarks.whole.scaleup.options import Chosen
from benchmarks.whole.scaleup.processes import PROGRAM, Processes
from lab.trials.claims import visible_gpus
from trainer.settings import sizes
from trainer.storage.records import read_metrics


class Here:
    """A case's processes; see ``cases.Running``."""

    def __init__(self, case: Case, chosen: Chosen, folder: Path):
        self._case = case
        self._folder = folder
        self._processes = Processes(folder)
        common = training_flags(chosen, case.actors)
        settings = sizes.filling(chosen.settings, case.actors, 1)  # as the frontend does it
        self._given = given_flags(settings, list(common))
        self._given += [f"--{name}={value}" for name, value in common.items()]
        self._ports = free_ports(case.learners)
        self._gpus = visible_gpus() or ["-1"]

    def __enter__(self) -> "Here":
        self._processes.__enter__()
        for number, team in enumerate(self._case.teams):
            ranks = [self._learner(one, self._logdir(number)) for one in team]
            self._processes.start(f"learners-{number}", _together(ranks))
        for index in range(self._case.learners * self._case.actors):
            port = self._ports[index % self._case.learners]
            self._processes.start(f"actor-{index}", self._actor(index, port))
        return self

    def __exit__(self, *_: object) -> None:
        self._processes.__exit__()

    def reports(self) -> list[Reports]:
        """What each team's first learner has reported until now."""
        return [read_metrics(self._logdir(number)) for number in range(len(self._case.teams))]

    def wait(self, until: Callable[[], object], seconds: float) -> None:
        """Waits until something holds; an error where a process ends or it takes too long."""
        self._processes.wait(until, seconds)

    def _logdir(self, team: int) -> Path:
        return self._folder / f"run-{team}"

    def _learner(self, number: int, logdir: Path) -> list[str]:
        cores = sorted(os.sched_getaffinity(0))
        address = f"--learner_host=localhost:{self._ports[number]}"
        return [
            *("env", f"CUDA_VISIBLE_DEVICES={self._gpus[number % len(self._gpus)]}"),
            *("taskset", "-c", str(cores[number % len(cores)])),
            *(*PROGRAM, "--job_name=learner", address, f"--logdir={logdir}", *self._given),
        ]

    def _actor(self, index: int, port: int) -> list[str]:
        own = ["--job_name=actor", f"--task={index}", f"--learner_host=localhost:{port}"]
        own.append(f"--actors_on_host={self._case.learners * self._case.actors}")
        return ["env", "CUDA_VISIBLE_DEVICES=-1", *PROGRAM, *own, *self._given]


def _together(ranks: list[list[str]]) -> list[str]:
    """One learner's own command, or the mpirun of several."""
    if len(ranks) == 1:
        return ranks[0]
    command = ["mpirun", "-H", ",".join(["localhost"] * len(ranks))]
    for index, rank in enumerate(ranks):
        command += [":"] * bool(index)
        command += ["-np", "1", "-bind-to", "none", "-map-by", "slot", *rank]
    return command
