"""Whether a learner that is fed faster than it learns stays flat in memory, and its actors.

  python -m benchmarks memory                       ten minutes of Pong with two actors
  python -m benchmarks memory --seconds=60 --actors=3 --agent_name=ResNetLSTMAgent

It starts experiment.py as a learner and actors, as a user would, and reads every second how much
memory each of them has resident, with the processes that it has started itself. A slope is the
least-squares line through what was read after the first fifth of the time: in that, queues fill and
TensorFlow takes as much as it works with. How much the actors waited shows whether the learner was
fed faster than it learned.
"""

import contextlib
import dataclasses
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import psutil

from benchmarks.tools import common
from benchmarks.tools.common import Options
from benchmarks.tools.machine import precision
from benchmarks.tools.report import Column, Report
from benchmarks.tools.trainer import Trainer, mean
from flags import setting
from trainer.settings import checks
from trainer.settings.config import Settings

COLUMNS = (
    Column("run", 4),
    Column("process", 8),
    Column("MB after a fifth", 17, ",.1f"),
    Column("MB at the end", 14, ",.1f"),
    Column("most", 9, ",.1f"),
    Column("MB a minute", 12, "+.2f"),
)
WANTED = 1.0
EVERY_S = 1.0
LEAST_ROWS = 3  # of which two are in the time that counts
SETTLED = 0.2  # share of the time that does not count
WAITS = {"the learner": "learner_wait_share", "its actors": "actor_wait_share"}


@dataclasses.dataclass(frozen=True)
class Own(Options):
    repeats: int = setting(1, "Measuring", "runs, one after the other", least=1)
    seconds: float = setting(600.0, "Measuring", "watched of each run", above=0)
    actors: int = setting(2, "Measuring", "actor processes", least=1, most=256)


class Watched(NamedTuple):
    """A run, or what there is of it."""

    names: list[str]  # of its processes
    rows: np.ndarray  # [N, 1 + P]: seconds, and the megabytes of each process
    waits: dict[str, float]  # who waited which share of the time, as far as it was reported

    @property
    def settled(self) -> np.ndarray:
        """Those of the rows that count."""
        return self.rows[self.rows[:, 0] >= SETTLED * self.rows[-1, 0]]

    def told(self) -> str:
        """How long it was, and who waited."""
        waited = [f"{who} waited {share:.0%} of the time" for who, share in self.waits.items()]
        return ", ".join([f"watched for {self.rows[-1, 0]:.0f} s", *waited])


def measure(arguments: list[str]) -> None:
    """Prints the table."""
    own, settings = common.parse(Own, "memory", __doc__, arguments, trainer=True)
    checks.check(settings)
    settings = common.in_a_cluster(settings, own.actors)
    what = (
        f"{', '.join(settings.level.levels)}; a learner and {own.actors} actors; {own.seconds:g} s"
    )
    report = Report("memory", COLUMNS, own, precision(settings), what, settings)
    runs: list[Watched] = []

    def keep(run: Watched) -> None:
        runs.append(run)
        add(report, str(len(runs)), run)

    try:
        for _ in range(own.repeats):
            watch(own, settings, keep)
    finally:  # also where it is stopped
        if runs:
            finish(report, runs)


def add(report: Report, name: str, run: Watched) -> None:
    """A row for each process of a run."""
    settled = run.settled
    for process, sizes, slope in zip(run.names, settled[:, 1:].T, slopes(settled), strict=True):
        report.row(name, process, sizes[0], sizes[-1], sizes.max(), slope)


def finish(report: Report, runs: Sequence[Watched]) -> None:
    """Prints what there is to say of all runs, and writes the files."""
    steepest = max(0.0, *(slope for run in runs for slope in slopes(run.settled)))
    print(f"\nsteepest: {steepest:+.2f} MB a minute; goal: below {WANTED:g}")
    told = [run.told() for run in runs]
    print("\n".join(f"run {number}: {one}" for number, one in enumerate(told, 1)))
    curves = [
        {"processes": run.names, "seconds and MB": run.rows.round(1).tolist()} for run in runs
    ]
    report.finish("MB a minute", WANTED, steepest=steepest, waited=told, curves=curves)


def watch(own: Own, settings: Settings, keep: Callable[[Watched], None]) -> None:
    """A run, handed to ``keep`` whatever ends it, if there is enough for a slope."""
    names = ["learner", *(f"actor {task}" for task in range(own.actors))]
    with Trainer(settings, own.actors, report_every_s=min(10.0, own.seconds / 3)) as trainer:
        trainer.wait_for_update()
        processes = [psutil.Process(pid) for pid in trainer.roles]
        rows: list[list[float]] = []
        begun = time.monotonic()
        try:
            while not rows or rows[-1][0] < own.seconds:
                seconds = time.monotonic() - begun
                rows.append([seconds, *map(resident, processes)])
                trainer.run_for(min(EVERY_S, own.seconds / 10))
            trainer.next_report()
        finally:
            if len(rows) >= LEAST_ROWS:
                waited = {who: mean(trainer.reports(), share) for who, share in WAITS.items()}
                known = {who: share for who, share in waited.items() if share is not None}
                keep(Watched(names, np.array(rows), known))


def resident(process: psutil.Process) -> float:
    """Megabytes of a process, and of those that it has started, such as to step environments."""
    size = process.memory_info().rss
    for child in process.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # it has just ended
            size += child.memory_info().rss
    return float(size) / 1e6


def slopes(rows: np.ndarray) -> np.ndarray:
    """[P]: megabytes a minute, of seconds and megabytes [N, 1 + P]."""
    return np.polyfit(rows[:, 0] / 60, rows[:, 1:], 1)[0]


if __name__ == "__main__":
    sys.exit(common.run("memory", measure))
