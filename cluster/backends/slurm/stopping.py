"""Stops a run on Slurm: its jobs, by the ids that Slurm has for their names."""

import contextlib
import time
from collections import Counter

from cluster.actions.next_steps import print_left
from cluster.backends.slurm import allocation, looking, queue
from cluster.backends.slurm.queue import SlurmFailed
from cluster.on_host import states
from cluster.on_host.states import write_whole
from cluster.options import Options
from cluster.record import Record, counted

LOOK_EVERY_S = 0.5
# From KILL to the end of a job, with the site's own programs that follow each job.
ENDS_WITHIN_S = 30.0
# What scancel says of a job or a step that has ended since Slurm was asked for it.
ENDED = ("Invalid job id", "Job step not running", "already completing or completed")


def stop(record: Record, options: Options) -> int:
    """Cancels every job of the run: TERM, then KILL after the grace period."""
    folder = looking.records_of(record)
    if folder.is_dir():
        # A task that Slurm starts or puts back into the queue at this moment ends at once.
        with contextlib.suppress(OSError):  # a full disk; jobs are cancelled anyway
            write_whole(folder / states.STOPPED, record.run_id)
    try:
        names = {one.name for one in looking.look(record).parts if one.is_alive}
        killed, left = _cancel(record, options.stop_grace_s)
    except SlurmFailed as error:
        print_left(["Not stopped:", f"  Slurm: {error}"], options.action)
        return 1
    jobs: Counter[str] = Counter()
    for part in record.parts:
        if part.name in names:
            jobs[part.job] += len(part.parts) or 1
    if names:
        what = counted(jobs)
        print(f"Stopped {what}" + ("; some had to be killed." if killed else "."))
    elif not left:
        print("Nothing to stop: no process of the run is left.")
    if left:
        print_left(["Not stopped:", f"  Slurm's jobs {' '.join(left)}"], options.action)
    return int(bool(left))


def _cancel(record: Record, grace_s: float) -> tuple[bool, list[str]]:
    """Whether some had to be killed, and the jobs that are left."""
    left = _active(record)
    if record.allocation:
        allocation.ask_keepers(record, looking.records_of(record))
    if left:
        # A step that is cancelled without a signal is killed at once, unlike a job.
        _scancel(*(["--signal=TERM"] if record.allocation else []), *left)
    left = _wait(record, grace_s)
    killed = bool(left)
    if killed:
        _scancel("--full", "--signal=KILL", *left)
        left = _wait(record, ENDS_WITHIN_S)
    if record.allocation:
        allocation.stop_script(record, grace_s)
    return killed, left


def _scancel(*arguments: str) -> None:
    try:
        queue.run("scancel", *arguments)
    except SlurmFailed as error:
        if not any(one in str(error) for one in ENDED):
            raise


def _active(record: Record) -> list[str]:
    tasks = (allocation if record.allocation else queue).tasks(record).values()
    return list(dict.fromkeys(one.job for one in tasks if one.is_active and one.job))


def _wait(record: Record, seconds: float) -> list[str]:
    end = time.monotonic() + seconds
    while (left := _active(record)) and time.monotonic() < end:
        time.sleep(LOOK_EVERY_S)
    return left
