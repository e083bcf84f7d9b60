"""What Slurm knows of a run's jobs: squeue, and sacct where the site keeps accounts."""

import dataclasses
import os
import re
import subprocess
from collections.abc import Sequence

from cluster.record import Record

# Jobs are found by name: a record written before they are submitted is never wrong.
FORMAT = "%j|%i|%T|%r|%N"
ANSWERS_WITHIN_S = 30.0
# Variables by which users change the defaults of Slurm's commands. These would hide jobs, ask
# before something is cancelled, or give a job another name than the one by which it is found.
IGNORED = re.compile(
    "(SQUEUE|SACCT|SCANCEL)_.*|SBATCH_(JOB_NAME|ARRAY_INX|OUTPUT|ERROR|NO_REQUEUE|SIGNAL|WAIT|TEST.*)"
)
# What Slurm's commands say where its controller is restarted, busy or out of reach.
AWAY = ("Unable to contact slurm controller", "Socket timed out", "Zero Bytes were transmitted")
# Slurm starts or ends them, or may run them again.
ACTIVE = (
    *("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING"),
    *("STAGE_OUT", "RESIZING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT"),
)


class SlurmFailed(Exception):
    """A command of Slurm that failed; the text is its error in one line."""


class SlurmMissing(SlurmFailed):
    """Slurm is not here."""


class SlurmAway(SlurmFailed):
    """Slurm itself has said nothing, and may answer later."""


@dataclasses.dataclass(frozen=True)
class Task:
    """A job, one task of an array, or a step."""

    id: str
    state: str
    reason: str = ""
    node: str = ""

    @property
    def job(self) -> str:
        """What scancel takes for all of an array or of a heterogeneous job, or for one step."""
        # A step such as 7_3.0 is in a job that is not the run's own.
        return self.id if "." in self.id else re.split("[_+]", self.id)[0]

    @property
    def is_active(self) -> bool:
        """Whether it is running, or will be."""
        return self.state in ACTIVE


def run(*command: str, text: str | None = None) -> str:
    """What a command of Slurm prints; ``SlurmFailed`` says why it failed."""
    try:
        done = subprocess.run(
            command,
            env={one: text for one, text in os.environ.items() if not IGNORED.fullmatch(one)},
            input=text,
            capture_output=True,
            text=True,
            timeout=ANSWERS_WITHIN_S,
            check=False,
        )
    except FileNotFoundError:
        raise SlurmMissing(f"there is no command {command[0]} here") from None
    except (OSError, subprocess.TimeoutExpired):
        raise SlurmAway(f"{command[0]} does not answer within {ANSWERS_WITHIN_S:g} s") from None
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()] or ["no output"]
        own = f"{command[0]}: "
        said = [line.removeprefix(own) for line in lines if line.startswith(own)] or lines[-1:]
        text = said[0].removeprefix("error: ")
        raise (SlurmAway if any(one in text for one in AWAY) else SlurmFailed)(text)
    return done.stdout


def tasks(record: Record) -> dict[str, Task]:
    """The job or task of each process that Slurm still knows."""
    names = dict(record.jobs)
    if not names:
        return {}
    printed = run(
        *("squeue", "--noheader", "--array", "--states=all", f"--user={os.getuid()}"),
        *(f"--name={','.join(names)}", f"--format={FORMAT}"),
    )
    found: dict[str, Task] = {}
    for line in printed.splitlines():
        name, one, state, reason, node = line.split("|")
        task = Task(one, state, "" if reason == "None" else reason, node)
        found.update(dict.fromkeys(_of_task(one, names.get(name, ())), task))
    return found


def _of_task(one: str, processes: Sequence[str]) -> Sequence[str]:
    """The processes of a job by its id: 7, or 7_3 of an array, or 7+1 of a heterogeneous job."""
    index = one.partition("_")[2]
    if index.isdigit():
        return processes[int(index) : int(index) + 1]
    part = one.partition("+")[2]
    if part:  # learners come first
        return processes[:1] if part == "0" else processes[1:]
    return processes


def accounts(record: Record) -> dict[str, str]:
    """The last state of each process's job, where the site keeps accounts and squeue forgot."""
    names = dict(record.jobs)
    try:
        printed = run(
            *("sacct", "--noheader", "--parsable2", "--allocations", "--starttime=now-30days"),
            *(f"--name={','.join(names)}", "--format=JobName,JobID,State"),
        )
    except SlurmFailed:
        return {}
    found = {}
    for line in printed.splitlines():
        name, one, state = line.split("|")[:3]
        processes = _of_task(one, names.get(name, ()))
        found.update(dict.fromkeys(processes, state.split(" ")[0]))
    return found
