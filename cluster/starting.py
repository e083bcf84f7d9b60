"""Starting a plan: the record first, then all hosts at once, then waiting until it runs."""

import time
from pathlib import Path
from typing import Any

from cluster import record as records
from cluster import stopping, watching
from cluster.hosts import Hosts, places, request
from cluster.model import Plan, Process
from cluster.options import Options
from cluster.record import Record
from cluster.ssh import HostFailed
from cluster.watching import Seen
from user_error import UserError

LOOK_EVERY_S = 0.5
# What is wrong with a command shows soon after its start, though the learners may listen before.
SETTLE_S = 2.0


def start(plan: Plan, options: Options, hosts: Hosts, project: Path) -> int:
    """Starts the plan; takes all of it down again if it did not start whole."""
    record = records.record_of(plan, options.tmux_sess)
    records.write(record)
    for path, content in plan.files:
        Path(path).write_text(content)
    try:
        problems = _start_processes(plan, options, record, hosts, project)
        problems += _wait(record, options, hosts, problems)
    except BaseException:
        stopping.stop(record, options, hosts)
        raise
    if problems and not options.allow_partial:
        stopping.stop(record, options, hosts)
        print("The cluster did not start whole and was taken down again:")
        print("\n".join(problems))
        return 1
    if problems:
        print("Not all of the cluster has started; the rest goes on:")
        print("\n".join(problems))
    _tell(record, options)
    return 0


def refuse_second_run(plan: Plan, hosts: Hosts) -> None:
    """A ``UserError`` if the logdir has a run that lives."""
    before = records.read(plan.logdir)
    if before is None:
        return
    alive = [one.name for one in watching.look(before, hosts).parts if one.is_alive]
    if alive:
        raise UserError(
            f"{plan.logdir} has a run already, of which {len(alive)} processes are alive "
            f"({', '.join(alive[:4])}{' …' if len(alive) > 4 else ''}). Look at it with "
            "--action=status, or end it with --action=stop."
        )


def _start_processes(
    plan: Plan, options: Options, record: Record, hosts: Hosts, project: Path
) -> list[str]:
    requests = {
        place: request(
            record,
            "start",
            place,
            parts,
            project=str(project) if place.host.is_local else "",
            processes=[_spec(one, options) for one in plan.processes if one.place == place],
        )
        for place, parts in places(record).items()
        if parts
    }
    return [
        f"  {place.host}: {reply}"
        for place, reply in hosts.ask_all(requests).items()
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
    }


def _wait(record: Record, options: Options, hosts: Hosts, before: list[str]) -> list[str]:
    """Waits until the learners listen; tells what ended meanwhile, and whom it waited for."""
    started = time.monotonic()
    while True:
        seen = watching.look(record, hosts)
        failed = [one for one in seen.parts if one.has_failed and one.part.job != "tensorboard"]
        if (failed or before) and not options.allow_partial:
            return [_failure(one) for one in failed]
        settled = time.monotonic() >= started + SETTLE_S
        if (
            settled
            and all(seen.listening.values())
            or all(not one.is_alive for one in _learners(seen))
        ):
            return [_failure(one) for one in failed]
        if time.monotonic() >= started + options.start_timeout_s:
            return [_failure(one) for one in failed] + [
                f"  {one.name} on {one.host}: has not opened port {one.port} within "
                f"--start_timeout_s={options.start_timeout_s:g}"
                for one, is_open in seen.listening.items()
                if not is_open
            ]
        time.sleep(LOOK_EVERY_S)


def _learners(seen: Seen) -> list[watching.SeenPart]:
    return [one for one in seen.parts if one.part.job == "learner"]


def _failure(one: watching.SeenPart) -> str:
    last = "".join(f"\n    | {line[:300]}" for line in one.last_lines[-15:])
    return f"  {one.name} on {one.part.host}: {one.state}{last}"


def _tell(record: Record, options: Options) -> None:
    again = f"python run_experiment_mm_raw.py --logdir={record.logdir} --action="
    print(f"{len(record.parts)} processes run. What to do with them:")
    if options.tmux_sess and any(part.host.is_local for part in record.parts):
        print(f"  tmux attach -t {options.tmux_sess}")
    for action in ("status", "logs", "stop"):
        print(f"  {again}{action}")
