"""A run inside an allocation that the user already has, from salloc: its steps, without sbatch."""

import os
import shlex
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from cluster.backends.slurm import queue
from cluster.backends.slurm.model import RUN_ID, Job, Process
from cluster.backends.slurm.queue import Task
from cluster.on_host import answers, states
from cluster.on_host.processes import MARK, boot_id, marked, send
from cluster.record import Record

FORMAT = "%i|%j|%N"


def own() -> str:
    """The allocation in which this process runs, or ""."""
    return os.environ.get("SLURM_JOB_ID", "")


def job(
    learners: Process,
    groups: Sequence[Sequence[Process]],
    asked: Mapping[str, Sequence[str]],
    enter: str,
    keeper: str,
) -> Job:
    """A script that starts all steps; it runs where the frontend does, until the last one ends."""
    lines = ["#!/bin/bash", enter]
    if learners.parts:  # the launcher makes a step of its own
        lines.append(f"{keeper} {learners.name} &")
    else:
        step = _step(learners.name, 1, [*on_node(learners.node), *asked["learner"]])
        lines.append(f"{step} {keeper} {learners.name} &")
    for number, group in enumerate(groups):
        # Where a node is named, its cores are shared if the allocation has too few there.
        on = on_node(group[0].node)
        options = [*on, *(["--overcommit"] if on else []), *asked["actor"]]
        step = _step(f"actors-{number}", len(group), options)
        lines.append(f"{step} {keeper} {' '.join(one.name for one in group)} &")
    names = [learners.name, *(one.name for group in groups for one in group)]
    return Job("steps", "\n".join([*lines, "wait"]) + "\n", tuple(names))


def on_node(node: str) -> list[str]:
    """What puts a job or a step where the CSV says; without the number it may spread further."""
    return [f"--nodelist={node}", "--nodes=1"] if node != "any" else []


def _step(name: str, count: int, options: Sequence[str]) -> str:
    step = ["srun", "--overlap", "--kill-on-bad-exit=0", f"--ntasks={count}"]
    return shlex.join([*step, f"--job-name={step_name(name)}"]) + "".join(f" {o}" for o in options)


def step_name(name: str) -> str:
    """The name by which a step is found again."""
    return f"impala-{name}-{RUN_ID}"


def steps(
    learners: Process, groups: Sequence[Sequence[Process]]
) -> list[tuple[str, tuple[str, ...]]]:
    """The name of each step, and its processes."""
    named = [("learners" if learners.parts else learners.name, [learners])]
    named += [(f"actors-{number}", list(group)) for number, group in enumerate(groups)]
    return [(step_name(name), tuple(one.name for one in those)) for name, those in named]


def launch(script: Path, record: Record) -> None:
    """Runs the script in the background; it outlasts this process."""
    with open(script.with_name("slurm-steps.log"), "ab") as log:
        subprocess.Popen(
            ["bash", str(script)],
            env={**os.environ, MARK: record.run_id},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def tasks(record: Record) -> dict[str, Task]:
    """The step of each process, or the script that is about to start it."""
    names = dict(record.jobs)
    printed = queue.run(
        *("squeue", "--noheader", "--steps", f"--jobs={record.allocation}"), f"--format={FORMAT}"
    )
    found: dict[str, Task] = {}
    if marked(record.run_id):
        waiting = Task("", "RUNNING")
        found = {process: waiting for processes in names.values() for process in processes}
    for line in printed.splitlines():
        one, name, node = line.split("|")
        found.update(dict.fromkeys(names.get(name, ()), Task(one, "RUNNING", "", node)))
    return found


def ask_keepers(record: Record, records: Path) -> None:
    """Asks the keepers on this machine to end: that of the launcher is in no step."""
    for part in record.parts:
        written = states.read(records, part.name, record.run_id)
        if written.get("boot_id") == boot_id():
            pid, started = written["keeper"]
            send(pid, started, signal.SIGTERM)


def stop_script(record: Record, grace_s: float) -> None:
    """Ends the script, and what else of the run is left on this machine."""
    answers.answer(
        {
            "do": "stop",
            "run_id": record.run_id,
            "folder": record.parts[0].place.folder,
            "logdir": record.logdir,
            "names": [],
            "tmux": "",
            "grace_s": grace_s,
        }
    )
