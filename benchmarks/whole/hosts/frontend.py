"""One command of the frontend, and what it costs while it runs."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.whole.hosts.fleet import Fleet
from trainer.machine.launching import PROJECT
from user_error import UserError

LOOK_EVERY_S = 0.02
ENDS_WITHIN_S = 60.0
PRIORITY = -10


class Cost(NamedTuple):
    """What a command has taken, at most where that changes."""

    seconds: float
    cpu_seconds: float
    descriptors: float
    threads: float
    megabytes_sent: float
    megabytes_received: float


def run(
    fleet: Fleet, *flags: str, meanwhile: Callable[[float], None] = lambda seconds: None
) -> tuple[Cost, str]:
    """Runs a command; returns its cost and what it prints. ``meanwhile`` is called all the time."""
    me, out = fleet.folder / "me", fleet.folder / "said"
    # It ends with the benchmark, however that ends.
    with_parent = ("setpriv", "--pdeathsig", "TERM")
    program = [sys.executable, str(PROJECT / "run_experiment_mm_raw.py"), "--logdir=logs/run"]
    before, began = _moved(fleet), time.monotonic()
    descriptors = threads = 0
    with out.open("w") as said:
        process = subprocess.Popen(
            [*with_parent, *program, *flags],
            cwd=me,
            env={**os.environ, "HOME": str(me)},
            stdout=said,
            stderr=subprocess.STDOUT,
        )
    # It would have a machine of its own, and not wait behind all hosts for its turn.
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, process.pid, PRIORITY)
    ended, status = 0, 0
    with _ended_if_stopped(process):
        while not ended:
            meanwhile(time.monotonic() - began)
            descriptors = max(descriptors, _descriptors(process.pid))
            threads = max(threads, _threads(process.pid))
            time.sleep(LOOK_EVERY_S)
            ended, status, used = os.wait4(process.pid, os.WNOHANG)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds, after = time.monotonic() - began, _moved(fleet)
    if process.returncode:
        raise UserError(f"{' '.join(flags)} failed:\n{out.read_text()}")
    # This machine receives what the bridge sends on to it.
    received, sent = (round((a - b) / 1e6, 3) for a, b in zip(after, before, strict=True))
    cpu = used.ru_utime + used.ru_stime
    return Cost(seconds, cpu, descriptors, threads, sent, received), out.read_text()


def running(text: str) -> int:
    """How many processes a status --json shows as running."""
    told = json.loads(text)
    return sum(one["state"] == "running" for one in told["processes"])


@contextlib.contextmanager
def _ended_if_stopped(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Ends the command where the block is stopped or fails."""
    try:
        yield
    except BaseException:
        process.terminate()
        try:
            process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        raise


def _descriptors(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


def _threads(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return 0


def _moved(fleet: Fleet) -> tuple[int, int]:
    """Bytes between this machine and the hosts so far; what hosts send each other is not in it."""
    folder = Path(f"/sys/class/net/{fleet.bridge.prefix}br/statistics")
    return int((folder / "rx_bytes").read_text()), int((folder / "tx_bytes").read_text())
