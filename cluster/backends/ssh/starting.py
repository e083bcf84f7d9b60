"""Starts a plan: writes the record, starts on all hosts at once, waits until it is running."""

import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cluster import mpi, show
from cluster import record as records
from cluster.actions import seen as seeing
from cluster.actions import watching
from cluster.actions.next_steps import failure, print_next_steps
from cluster.actions.seen import Seen
from cluster.backends.ssh import looking, stopping
from cluster.backends.ssh.hosts import Hosts, places, request
from cluster.model import Plan, Process
from cluster.options import Options
from cluster.record import Record
from cluster.ssh import logins
from cluster.ssh.failures import HostFailed
from cluster.ssh.passwords import Passwords

# A wrong command fails soon after its start, but perhaps after the learners listen.
SETTLE_S = 2.0


def start(
    plan: Plan,
    options: Options,
    hosts: Hosts,
    passwords: Passwords,
    project: Path,
    flags: Sequence[str],
) -> int:
    """Starts the plan; stops all of it again if a part did not start."""
    record = records.record_of(plan, options.tmux_sess, flags)
    files = {path: text.replace(mpi.RUN_ID, record.run_id) for path, text in plan.spread.files}
    records.write(record, files)
    try:
        with show.console().status("starting, and waiting for the learners to listen"):
            problems = logins.open_all(plan.spread, record.run_id, passwords, options)
            problems += start_processes(plan, options, record, hosts, project)
            found, seen = _wait(record, options, hosts, problems)
    except BaseException:
        stopping.stop(record, options, hosts)
        raise
    problems += found
    if not seen.is_learning and any(one.state == "stopped" for one in seen.parts):
        # What failed besides may well be missing because of that, such as tmux.
        stopping.stop(record, options, hosts)
        print("The run was stopped while it was being started.")
        return 1
    if problems and not (options.allow_partial and seen.is_learning):
        what = "No learner started" if options.allow_partial else "Not everything started"
        print(f"{what}, so the cluster is stopped again:")
        print("\n".join(problems))
        stopping.stop(record, options, hosts)
        return 1
    if not seen.is_learning:
        stopping.stop(record, options, hosts)
        print(f"The learners ended at once, without an error: {_last_line(seen)}")
        return 0
    if problems:
        print("Not everything started; the rest keeps running:")
        print("\n".join(problems))
    print_next_steps(plan.logdir, seen, again(plan, options), options.tmux_sess)
    return 0


def start_processes(
    plan: Plan, options: Options, record: Record, hosts: Hosts, project: Path
) -> list[str]:
    """Starts the processes of a record on all hosts; returns the failures."""
    attempt = uuid.uuid4().hex  # so that a request that is sent twice starts nothing twice
    requests = {
        place: request(
            record,
            "start",
            place,
            parts,
            attempt=attempt,
            project=str(project) if place.host.is_local else "",
            processes=[_spec(one, options) for one in plan.processes if one.place == place],
        )
        for place, parts in places(record).items()
        if parts
    }
    # A keeper that a first request has started prevents a second one for its process.
    replies = hosts.ask_all(requests, options.patience)
    return [
        f"  {place.host}: {reply}"
        for place, reply in replies.items()
        if isinstance(reply, HostFailed)
    ]


def _spec(process: Process, options: Options) -> dict[str, Any]:
    return {
        "name": process.name,
        "argv": process.argv,
        "python": process.place.python,
        "env": process.env,
        "under_mpirun": bool(process.parts),
        "restarts": process.restarts,
        "grace_s": options.stop_grace_s,
        "log_bytes": options.log_bytes,
    }


def _wait(
    record: Record, options: Options, hosts: Hosts, before: list[str]
) -> tuple[list[str], Seen]:
    """Waits until the learners listen; returns the failures so far, and the run's state."""
    started = time.monotonic()
    advice = ""
    silence = looking.Silence(options.patience)
    while True:
        seen = looking.look(record, hosts)
        if not advice and (advice := seeing.advice(seen, record)):
            print(advice, flush=True)
        passing = silence.passing(seen)
        problems = [
            failure(one)
            for one in seen.parts
            if one.has_failed and one.part.job != "tensorboard" and one.name not in passing
        ]
        seconds = time.monotonic() - started
        if (problems or before) and not options.allow_partial:
            return problems, seen
        if not (seen.is_learning or passing):
            return problems, seen
        silent = _silent(seen, options)
        if not passing and seconds >= SETTLE_S and not silent:
            return problems, seen
        if seconds >= options.start_timeout_s:
            return problems + silent, seen
        time.sleep(looking.LOOK_EVERY_S)


def _silent(seen: Seen, options: Options) -> list[str]:
    """The learners that do not listen; those that have ended never will."""
    ended = {one.name for one in seen.parts if not (one.is_alive or one.is_unseen)}
    return [
        f"  {one.name} on {one.host}: has not opened port {one.port} within "
        f"--start_timeout_s={options.start_timeout_s:g}"
        for one, is_open in seen.listening.items()
        if not is_open and one.name not in ended
    ]


def _last_line(seen: Seen) -> str:
    learners = [one for one in seen.parts if one.part.job == "learner"]
    lines = [line for one in learners for _, line, _ in watching.lines_of(one, {})]
    return next(filter(None, lines), "see --action=logs.")


def again(plan: Plan, options: Options) -> list[str]:
    """Flags of later commands; they need passwords if this one did."""
    flags = []
    if any(one.row.ssh_password for one in plan.members):
        flags.append(f"--workers_csv_path={options.workers_csv_path}")
    if options.ssh_config:
        flags.append(f"--ssh_config={options.ssh_config}")
    if options.ssh_password_env:
        flags.append(f"--ssh_password_env={options.ssh_password_env}")
    elif options.ask_ssh_password:
        flags.append("--ask_ssh_password")
    return flags
