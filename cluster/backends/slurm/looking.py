"""The state of a run on Slurm: what the scheduler says, joined with what the keepers wrote."""

import dataclasses
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cluster.actions.seen import UNSEEN, Seen, SeenPart, figures_in
from cluster.backends.backend import Tails
from cluster.backends.slurm import allocation, queue
from cluster.backends.slurm.queue import SlurmFailed, Task
from cluster.model import Host, Place
from cluster.on_host import answers, states
from cluster.record import Part, Record


def records_of(record: Record) -> Path:
    """The folder in which the keepers write; all nodes share it."""
    return Path(record.parts[0].place.folder) / record.logdir / "cluster"


def look(record: Record) -> Seen:
    """Asks Slurm, and reads the files of the run."""
    folder = records_of(record)
    try:
        tasks = (allocation if record.allocation else queue).tasks(record)
    except SlurmFailed as error:
        parts = [SeenPart(part, f"{UNSEEN}{error}") for part in record.parts]
        return Seen(parts, {}, _figures(record), {})
    forgotten = [part.name for part in record.parts if part.name not in tasks]
    ended = queue.accounts(record) if forgotten and not record.allocation else {}
    parts = [_seen(part, tasks.get(part.name), ended, folder, record) for part in record.parts]
    return Seen(parts, {}, _figures(record), {})


def tail(record: Record, offsets: Mapping[str, int]) -> Tails:
    """What the logs hold beyond the offsets, read from the shared folder."""
    seen = look(record)
    alive = {one.name for one in seen.parts if one.is_alive or one.is_unseen} & set(offsets)
    reply = answers.answer(
        {
            "do": "tail",
            "folder": record.parts[0].place.folder,
            "logdir": record.logdir,
            "run_id": record.run_id,
            "offsets": dict(offsets),
            "alive": sorted(alive),
        }
    )
    texts = {name: (log["text"], log["offset"]) for name, log in reply["logs"].items()}
    return Tails(texts, alive, {})


def _seen(
    part: Part, task: Task | None, ended: Mapping[str, str], folder: Path, record: Record
) -> SeenPart:
    written = states.read(folder, part.name, record.run_id)
    has_kept = "keeper" in written
    if record.allocation and written.get("state") in ("ended", "stopped"):
        task = None  # a step ends with the last of its processes
    log = folder / f"{part.name}.log"
    node = task.node if task and task.node else part.host.ip
    place = Place(Host(node, 22), part.place.folder, part.place.python)
    seen = SeenPart(
        dataclasses.replace(part, place=place),
        judged(task, written, ended.get(part.name, "")),
        written.get("since"),
        written.get("restarts", 0),
    )
    # What the logs have before a keeper is of an earlier run, until something has failed.
    lines = answers.last_lines(log, begin=written.get("log_begin", 0)) if has_kept else []
    if seen.has_failed:
        lines = lines or _of_slurm(part.name, folder, record)
    silent_s = time.time() - log.stat().st_mtime if has_kept and log.exists() else 0.0
    return dataclasses.replace(seen, last_lines=tuple(lines), silent_s=silent_s)


def _of_slurm(name: str, folder: Path, record: Record) -> list[str]:
    """What Slurm itself has printed for the job of a process that wrote nothing."""
    for job, processes in record.jobs:
        if name in processes:
            what = job.removeprefix("impala-").removesuffix(f"-{record.run_id}")
            return answers.last_lines(folder / f"slurm-{what}.log")
    return []


def judged(task: Task | None, written: Mapping[str, Any], accounted: str = "") -> str:
    """The state of a process, in the words that the frontend uses everywhere."""
    kept = written.get("state", "")
    if task and task.is_active:
        return _active(task, kept)
    last = task.state if task else accounted
    if kept == "ended":
        return states.judged(dict(written), "")
    if kept == "stopped" or last == "CANCELLED":
        return "stopped"
    if last == "COMPLETED":
        return "done"
    if last:
        return f"failed: {last}"
    return "lost: Slurm has no job of it any more" if kept else "not started"


def _active(task: Task, kept: str) -> str:
    if task.state in ("SUSPENDED", "STOPPED"):
        return "suspended"
    if task.state in ("COMPLETING", "STAGE_OUT"):
        return "stopping"
    if task.state == "CONFIGURING":
        return "starting"
    if task.state in ("RUNNING", "SIGNALING", "RESIZING"):
        # What is written may be from before the job was put back into the queue.
        return kept if states.is_living(kept) else "starting"
    return f"waiting, {task.reason}" if task.reason else "waiting"


def _figures(record: Record) -> dict[str, dict[str, Any]]:
    last = answers.last_lines(records_of(record).parent / "metrics.jsonl", 1)
    return {record.parts[0].name: figures_in(last)}
