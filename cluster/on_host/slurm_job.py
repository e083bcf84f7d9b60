"""Supervises one process of a job of Slurm, as the keeper does on hosts of one's own.

    python -m cluster.on_host.slurm_job LOGDIR/cluster VARIABLE NAME [NAME …]

With several names, the task of an array or of a step takes the one of its number, which is in this
variable: a step may be in the task of an array, and has both then. Slurm sends USR1 some time
before the job's time limit: the process then ends, and the job is put back into the queue.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from cluster.on_host.keeper import Keeper

# A job whose time limit is shorter than Slurm's warning would be put back for ever.
SHORT_S = 60.0
SHORT_RUNS = 3
# A busy scheduler is asked again, for about as long as the warning leaves.
REQUEUED_WITHIN_S, AGAIN_S = 60.0, 5.0
NOT_REQUEUED = 75  # EX_TEMPFAIL: the same command goes on from the checkpoint


class JobKeeper(Keeper):
    """A keeper whose process no other can have: Slurm starts each task once."""

    def __init__(self, spec: dict):
        super().__init__(spec)
        self._requeues = False
        self._begun = time.monotonic()
        signal.signal(signal.SIGUSR1, self._yield)

    def run(self) -> int:
        """Supervises the process; returns its last exit code."""
        code = super().run()
        if not self._requeues:
            return code
        restarts = int(os.environ.get("SLURM_RESTART_COUNT") or 0)
        if time.monotonic() - self._begun < SHORT_S and restarts >= SHORT_RUNS:
            problem = "it leaves no time to run"
        else:
            problem = requeue()
        if not problem:
            self._log("the time limit is near; requeued")
            return code
        self._log(f"the time limit is near; not requeued: {problem}")
        self._write(state="ended", exit_code=NOT_REQUEUED)  # nothing starts it again
        return NOT_REQUEUED

    def _is_mine(self) -> bool:
        # Not by a lock: that of a node that has died may last as long as its file server wants.
        return True

    def _show(self) -> None:
        """Shows nothing: the frontend reads the log."""

    def _yield(self, number: int, _: object) -> None:
        self._requeues = True
        self._stop(signal.SIGTERM, _)


def requeue() -> str:
    """Puts this job back into the queue; says why that is not possible, or ""."""
    asked: list[int] = []  # to end, as Slurm does with a job that goes back or is cancelled
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    end = time.monotonic() + REQUEUED_WITHIN_S
    while True:
        try:
            done = subprocess.run(
                ["scontrol", "requeue", own_job()], capture_output=True, text=True, check=False
            )
            if done.returncode <= 0 or asked:  # below 0: it was ended with the job
                return ""
            problem = " ".join(done.stderr.split()) or "scontrol failed"
        except OSError as error:  # in a container that has no Slurm
            problem = f"scontrol: {error.strerror}"
        if time.monotonic() >= end:
            return problem
        time.sleep(AGAIN_S)


def own_job() -> str:
    """The id of this job, or of this task of an array."""
    array, task = (os.environ.get(f"SLURM_ARRAY_{one}_ID") for one in ("JOB", "TASK"))
    return f"{array}_{task}" if array else os.environ["SLURM_JOB_ID"]


def own_name(variable: str, names: list[str]) -> str:
    """The name of this task's process."""
    return names[int(os.environ[variable]) if len(names) > 1 else 0]


if __name__ == "__main__":
    folder, variable, *given = sys.argv[1:]
    spec = json.loads((Path(folder) / f"{own_name(variable, given)}.spec.json").read_text())
    sys.exit(JobKeeper(spec).run() & 255)
