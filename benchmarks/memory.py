"""Whether a learner that is fed faster than it learns stays flat, and its actors with it.

    python -m benchmarks.memory [--seconds=600] [--actors=2] [--level_name=… --agent_name=…]

A learner and actors of `experiment.py` train as they do everywhere; the flags of training are
theirs. Resident memory of each is read every second. The table has a line for each tenth of the
time; a slope is the least-squares line through what was read after the first fifth, in which
queues fill and TensorFlow's memory grows to its size. How much the actors waited shows that the
learner was fed faster than it learned. Wanted: less than 1 MB a minute, of each process.
"""

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.machine import processor
from benchmarks.processes import PROGRAM, Failed, Processes, free_ports
from impala import config
from impala.config import Settings
from impala.records import read_metrics
from user_error import UserError

WANTED_MB_A_MINUTE = 1.0
EVERY_S = 1.0
STARTS_WITHIN_S = 240.0
DECIDED = ("job_name", "task", "learner_host", "actor_hosts", "logdir", "total_environment_frames")


def start(processes: Processes, settings: Settings, actors: int, logdir: Path) -> list[str]:
    """Starts all processes and waits until the learner learns; their names."""
    given = [flag for flag in config.to_flags(settings) if _name(flag) not in DECIDED]
    common = [*given, f"--learner_host=localhost:{free_ports(1)[0]}", f"--logdir={logdir}"]
    common += ["--total_environment_frames=1e14", "--report_every_s=1"]
    names = [f"actor {task}" for task in range(actors)]
    processes.start("learner", [*PROGRAM, "--job_name=learner", *common])
    for task, name in enumerate(names):
        processes.start(name, [*PROGRAM, "--job_name=actor", f"--task={task}", *common])
    processes.wait(lambda: read_metrics(logdir), STARTS_WITHIN_S)
    return ["learner", *names]


def sample(
    processes: Processes, names: list[str], seconds: float, tell: Callable[[float, list], None]
) -> np.ndarray:
    """[N, 1 + P]: seconds since the start, and megabytes of each process."""
    rows: list[list[float]] = []
    begun = time.monotonic()

    def look() -> bool:
        now = time.monotonic() - begun
        if not rows or now - rows[-1][0] >= EVERY_S or now >= seconds:
            sizes = [sum(one.memory_info().rss for one in processes.tree(name)) for name in names]
            rows.append([now, *(size / 1e6 for size in sizes)])
            tell(now, rows[-1][1:])
        return now >= seconds

    processes.wait(look, seconds + STARTS_WITHIN_S)
    return np.array(rows)


def slopes(rows: np.ndarray) -> np.ndarray:
    """[P]: megabytes a minute, after the first fifth of the time."""
    late = rows[rows[:, 0] >= rows[-1, 0] / 5]
    return np.polyfit(late[:, 0] / 60, late[:, 1:], 1)[0]


class Table:
    """Prints a line for each tenth of the time."""

    def __init__(self, names: list[str], seconds: float):
        self._every = seconds / 10
        self._next = 0.0
        print(f"{'seconds':>8}" + "".join(f"{name:>12}" for name in names) + "  (MB resident)")

    def __call__(self, now: float, megabytes: list[float]) -> None:
        if now >= self._next:
            self._next += self._every
            print(f"{now:>8.0f}" + "".join(f"{size:>12.1f}" for size in megabytes), flush=True)


def main(arguments: list[str]) -> int:
    """Prints the table and the slopes; returns 1 where a slope is not as wanted."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    flags = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    flags.add_argument("--seconds", type=float, default=600.0)
    flags.add_argument("--actors", type=int, default=2)
    if {"-h", "--help"} & set(arguments):
        print(__doc__)
        return 0
    given, training = flags.parse_known_args(arguments)
    try:
        settings = config.parse([*training, "--job_name=learner"])
        return measure(settings, given.actors, given.seconds)
    except UserError as error:
        print(f"benchmarks.memory: {error}", file=sys.stderr)
        return 2
    except Failed as error:
        print(f"benchmarks.memory: {error}", file=sys.stderr)
        return 1


def measure(settings: Settings, actors: int, seconds: float) -> int:
    """Runs the processes for so long."""
    print(f"{processor()}\nflags: {config.to_command(settings) or 'the defaults'}")
    with tempfile.TemporaryDirectory(prefix="memory") as folder:
        logdir = Path(folder) / "run"
        with Processes(Path(folder)) as processes:
            names = start(processes, settings, actors, logdir)
            rows = sample(processes, names, seconds, Table(names, seconds))
        reports = read_metrics(logdir)
    found = slopes(rows)
    print(
        "slope, MB a minute: "
        + ", ".join(f"{n} {s:+.2f}" for n, s in zip(names, found, strict=True))
    )
    waits = [float(np.mean([row[name] for row in reports])) for name in WAITS]
    print(f"the learner waited {waits[0]:.0%} of the time, its actors {waits[1]:.0%}")
    flat = bool((found < WANTED_MB_A_MINUTE).all())
    print(f"wanted: below {WANTED_MB_A_MINUTE:g} MB a minute. {'Flat.' if flat else 'NOT flat.'}")
    return int(not flat)


WAITS = ("learner_wait_share", "actor_wait_share")


def _name(flag: str) -> str:
    return flag.partition("=")[0].removeprefix("--")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
