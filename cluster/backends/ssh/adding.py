"""Adds actors to a run: those of the CSV that do not run yet."""

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path

from cluster import record as records
from cluster import show
from cluster.actions.next_steps import failure
from cluster.actions.seen import Seen, SeenPart
from cluster.backends.ssh import checking, entrusting, looking, removing, starting
from cluster.backends.ssh.hosts import Hosts
from cluster.inventory.hosts_csv import Row
from cluster.model import Plan
from cluster.options import Options
from cluster.plan import make_plan
from cluster.record import Part, Record
from cluster.this_machine import here
from trainer.settings.config import Settings
from user_error import UserError


def plan(
    record: Record, seen: Seen, rows: Sequence[Row], settings: Settings, options: Options
) -> tuple[Plan, list[SeenPart]]:
    """The actors of the rows that are not running, each under the number that it had, if any.

    And those of which nobody knows, because their hosts do not answer.
    """
    if not rows:
        raise UserError("--workers_csv_path is not given: name the CSV with the actors to add.")
    if not seen.is_learning:
        away = [one for one in seen.parts if one.part.job == "learner" and one.is_unseen]
        if away:
            raise UserError(
                f"{settings.run_folder}: {unseen(away[0])}. Give the same command again later."
            )
        raise UserError(
            f"{settings.run_folder}: no learner is running there. Use --action=start, which starts "
            "all rows."
        )
    if any(part.job == "actor" and not part.port for part in record.parts):
        raise UserError(
            f"{settings.run_folder}: an earlier version started that run, and which rows are "
            "running is unknown. Use --action=restart."
        )
    if "remote" in {*(row.job for row in rows), *(part.job for part in record.parts)}:
        raise UserError(
            f"{settings.run_folder}: each actor there has remotes of its own, which --action=add "
            "cannot deal anew. Use --action=restart."
        )
    numbers = {
        (part.host, part.port): int(part.name.rpartition("-")[2])
        for part in record.parts
        if part.job == "actor"
    }
    whole = make_plan(rows, settings, options, here(), numbers)
    if records.listeners_of(whole) != record.listeners:
        raise UserError(
            f"{options.workers_csv_path}: its learners are not those of the run, and --action=add "
            "adds actors only. Give it in the folder in which the run was started, if that was "
            "another one; otherwise use --action=restart."
        )
    asked = {one.name for one in whole.actors}
    there = {one.name for one in seen.parts if one.is_alive or one.is_unseen}
    new = dataclasses.replace(
        whole,
        actors=tuple(one for one in whole.actors if one.name not in there),
        processes=tuple(
            one for one in whole.processes if one.job == "actor" and one.name not in there
        ),
    )
    return new, [one for one in seen.parts if one.name in asked and one.is_unseen]


def unseen(one: SeenPart) -> str:
    """That nobody knows whether a process is running, and why."""
    return f"{one.name} cannot be seen: {one.part.host}: {one.why_unseen}"


def add(
    plan: Plan, record: Record, options: Options, settings: Settings, hosts: Hosts, project: Path
) -> int:
    """Checks and starts the plan's actors; ends them again if one did not start."""
    patience_s, session = options.patience, record.tmux
    wrong, _ = checking.check(plan, hosts, project, session, record, patience_s, listening=True)
    if wrong:
        show.console().print(checking.table(wrong))
        if not options.allow_partial:
            print("Nothing was added. Fix this, or give --allow_partial.")
            return 1
    if settings.remote.transport == "secure":
        folder = record.path.parent.parent
        entrusted = entrusting.entrust(plan, hosts, folder, patience_s, secure=True)
        if not entrusted and not options.allow_partial:
            return 1
    new = records.parts_of(plan)
    grown = _with(record, new)
    records.write(grown, {})
    try:
        with show.console().status("starting"):
            only = dataclasses.replace(grown, parts=new)
            problems = starting.start_processes(plan, options, only, hosts, project)
            if not problems or options.allow_partial:
                problems += _settle(only, hosts, options)
        seen = looking.find_learners(grown, hosts, patience_s)
    except BaseException:
        removing.end(grown, new, options, hosts)
        raise
    if not seen.is_learning or (problems and not options.allow_partial):
        why = "Not everything was added"
        if not seen.is_learning:
            unseen = any(one.is_unseen for one in seen.parts if one.part.job == "learner")
            why = "No learner can be seen" if unseen else "The run has ended meanwhile"
        print(f"{why}, so the new actors are stopped again:")
        print("\n".join(problems), end="\n" if problems else "")
        removing.end(grown, new, options, hosts)
        return 1
    if problems:
        print("Not everything was added; the rest keeps running:")
        print("\n".join(problems))
    names = {part.name for part in new}
    alive = [one.part for one in seen.parts if one.name in names and one.is_alive]
    print(f"Added {removing.listed(alive)}.")
    return 0


def _with(record: Record, new: Sequence[Part]) -> Record:
    """The record with more actors, each in the place of a former one of its name."""
    names = {one.name for one in new}
    parts = [*(one for one in record.parts if one.name not in names), *new]

    def order(part: Part) -> tuple[int, int]:
        is_actor = part.job == "actor"
        number = int(part.name.rpartition("-")[2]) if is_actor else 0
        return records.ORDER.index(part.job), number

    return dataclasses.replace(record, parts=tuple(sorted(parts, key=order)))


def _settle(record: Record, hosts: Hosts, options: Options) -> list[str]:
    """The failures of processes that have just been started; a wrong command fails soon."""
    end = time.monotonic() + starting.SETTLE_S
    silence = looking.Silence(options.patience)
    while True:
        seen = looking.look(record, hosts)
        passing = silence.passing(seen)
        problems = [
            failure(one) for one in seen.parts if one.has_failed and one.name not in passing
        ]
        if (problems or not passing) and time.monotonic() >= end:
            return problems
        time.sleep(looking.LOOK_EVERY_S)
