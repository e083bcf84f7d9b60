"""Starts a plan on Slurm: writes what its jobs need, submits them, waits for the learners."""

import functools
import json
import time
import uuid
from collections.abc import Collection
from pathlib import Path

import credentials
from cluster import record as records
from cluster import show
from cluster.actions.next_steps import failure, print_next_steps
from cluster.actions.seen import Seen
from cluster.backends.patience import patiently
from cluster.backends.slurm import allocation, looking, queue, stopping
from cluster.backends.slurm.model import RUN_ID, Job, Process, SlurmPlan
from cluster.backends.slurm.queue import SlurmAway, SlurmFailed
from cluster.model import Here, Host, Place
from cluster.on_host.member import read_address
from cluster.options import Options
from cluster.record import Part, Record
from trainer.settings.config import Settings

LOOK_EVERY_S = 0.5
# A job that waits for so long may wait for hours.
WAITS_S = 10.0


def record_of(plan: SlurmPlan, here: Here) -> Record:
    """A new run's record, written before its jobs exist: they are found by their names."""
    run_id = uuid.uuid4().hex
    parts = [
        Part(one.name, one.job, Place(Host(one.node, 22), here.folder, here.python), one.parts)
        for one in plan.processes
    ]
    jobs = [(f"impala-{job.name}-{run_id}", job.processes) for job in plan.jobs]
    jobs += [(name.replace(RUN_ID, run_id), those) for name, those in plan.steps]
    inside = allocation.own()
    return Record(run_id, plan.logdir, "", tuple(parts), (), "slurm", tuple(jobs), inside)


def start(plan: SlurmPlan, options: Options, settings: Settings, here: Here) -> int:
    """Submits the plan; cancels all of it again if a part cannot be submitted or fails."""
    if settings.remote.transport == "secure":  # first: if it fails, the former run's record stays
        folder = Path(plan.logdir) / credentials.FOLDER
        credentials.make(folder)
        credentials.read(str(folder / credentials.LEARNER), of_learner=True)
    record = record_of(plan, here)
    records.write(record, _files(plan, record, options, here))
    try:
        with show.console().status("submitting, and waiting for the learners to listen"):
            problems, refused = _submit(plan, record, options)
            is_there = record.parts[0].name not in refused
            found, seen = _wait(record, options, refused) if is_there else ([], None)
    except BaseException:
        stopping.stop(record, options)
        raise
    problems += found
    if problems and not (options.allow_partial and seen and seen.is_learning):
        print("Not everything started, so the run is stopped again:")
        print("\n".join(problems))
        stopping.stop(record, options)
        return 1
    assert seen
    if not seen.is_learning:
        print("The learners ended at once, without an error: see --action=logs.")
        stopping.stop(record, options)
        return 0
    if problems:
        print("Not everything started; the rest keeps running:")
        print("\n".join(problems))
    print_next_steps(plan.logdir, seen, [])
    return 0


def _files(plan: SlurmPlan, record: Record, options: Options, here: Here) -> dict[str, str]:
    """Specs of the keepers, and the scripts of the jobs."""
    folder = looking.records_of(record)
    files = {
        str(folder / f"{one.name}.spec.json"): json.dumps(_spec(one, record, folder, options, here))
        for one in plan.processes
    }
    for job in plan.jobs:
        script = job.script.replace(RUN_ID, record.run_id)
        files[str(folder / f"{job.name}.sbatch")] = script
    return files


def _spec(process: Process, record: Record, folder: Path, options: Options, here: Here) -> dict:
    return {
        "name": process.name,
        "argv": [word.replace(RUN_ID, record.run_id) for word in process.argv],
        "env": process.env,
        # Slurm signals all processes of a job itself.
        "under_mpirun": False,
        "restarts": process.restarts,
        "grace_s": options.stop_grace_s,
        "log_bytes": options.log_bytes,
        "run_id": record.run_id,
        "folder": here.folder,
        "state": str(folder / f"{process.name}.json"),
        "log": str(folder / f"{process.name}.log"),
    }


def _submit(plan: SlurmPlan, record: Record, options: Options) -> tuple[list[str], set[str]]:
    """Submits the jobs; returns why some were refused, and the processes that do not come."""
    folder = looking.records_of(record)
    problems: list[str] = []
    refused: set[str] = set()
    for job in plan.jobs:
        if record.allocation:
            allocation.launch(folder / f"{job.name}.sbatch", record)
            continue
        submit = functools.partial(_submit_once, folder / f"{job.name}.sbatch", job, record, [])
        try:
            patiently(submit, SlurmAway, options.patience)
        except SlurmFailed as error:
            problems.append(f"  {job.name}: {error}")
            if job is plan.jobs[0] or not options.allow_partial:  # the first one has the learners
                return problems, {one.name for one in plan.processes}
            refused.update(job.processes)
    return problems, refused


def _submit_once(script: Path, job: Job, record: Record, tries: list[bool]) -> None:
    """Submits a job, unless Slurm took it the time before, and did not say so."""
    if tries and set(job.processes) & queue.tasks(record).keys():
        return
    tries.append(True)
    queue.run("sbatch", "--parsable", str(script))


def _wait(record: Record, options: Options, refused: Collection[str]) -> tuple[list[str], Seen]:
    """Waits until the learners listen, or for long enough to see that they wait in the queue.

    Why those do not come that were ``refused`` is known already.
    """
    started = time.monotonic()
    folder = looking.records_of(record)
    learner = record.parts[0]
    answered = started
    while True:
        seen = looking.look(record)
        first = next(one for one in seen.parts if one.part.job == "learner")
        now = time.monotonic()
        if not first.is_unseen:
            answered = now
        elif now - answered < options.patience:
            time.sleep(LOOK_EVERY_S)
            continue
        else:
            return [f"  {learner.name}: {first.state}"], seen
        problems = [
            failure(one)
            for one in seen.parts
            if one.has_failed and not one.is_unseen and one.name not in refused
        ]
        seconds = time.monotonic() - started
        if (problems and not options.allow_partial) or not first.is_alive:
            return problems, seen
        names = learner.parts or (learner.name,)
        if all(read_address(folder, name, record.run_id) for name in names):
            return problems, seen
        if first.state.startswith("waiting") and seconds > WAITS_S:
            print(f"The learners' job is in Slurm's queue: {first.state}.")
            return problems, seen
        if seconds >= options.start_timeout_s:
            late = f"{options.start_timeout_s:g}"
            what = f"  {learner.name}: does not listen within --start_timeout_s={late}."
            shared = f" Do its nodes share {folder}?" if first.state == "starting" else ""
            return [*problems, what + shared], seen
        time.sleep(LOOK_EVERY_S)
