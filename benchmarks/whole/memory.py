"""Whether a learner that is fed faster than it learns stays flat in memory, and its actors.

  python -m benchmarks memory                       ten minutes of Pong with two actors
  python -m benchmarks memory --seconds=60 --actors=3 --agent_name=ResNetLSTMAgent

It starts experiment.py as a learner and actors, as a user would, and reads every second how much
memory each of them has resident. A slope is the least-squares line through what was read after
the first fifth of the time: in that, queues fill and TensorFlow takes as much as it works with.
How much the actors waited shows whether the learner was fed faster than it learned.
"""

import dataclasses
import sys
import time
from typing import Any

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
SETTLED = 0.2  # share of the time that does not count
WAITS = {"the learner": "learner_wait_share", "its actors": "actor_wait_share"}


@dataclasses.dataclass(frozen=True)
class Own(Options):
    repeats: int = setting(1, "Measuring", "runs, one after the other", least=1)
    seconds: float = setting(600.0, "Measuring", "watched of each run", above=0)
    actors: int = setting(2, "Measuring", "actor processes", least=1, most=256)


def measure(arguments: list[str]) -> None:
    """Prints the table."""
    own, settings = common.parse(Own, "memory", __doc__, arguments, trainer=True)
    checks.check(settings)
    what = (
        f"{', '.join(settings.level.levels)}; a learner and {own.actors} actors; {own.seconds:g} s"
    )
    report = Report("memory", COLUMNS, own, precision(settings), what, settings)
    waits_of_runs, curves, steepest = [], [], 0.0
    try:
        for run in range(1, own.repeats + 1):
            names, rows, waits = watch(own, settings)
            settled = rows[rows[:, 0] >= SETTLED * rows[-1, 0]]
            found = slopes(settled)
            for name, sizes, slope in zip(names, settled[:, 1:].T, found, strict=True):
                report.row(str(run), name, sizes[0], sizes[-1], sizes.max(), slope)
            steepest = max(steepest, *found)
            curves.append({"processes": names, "seconds and MB": rows.round(1).tolist()})
            waited = ", ".join(f"{who} waited {share:.0%}" for who, share in waits.items())
            waits_of_runs.append(waited)
    finally:  # also where it is stopped
        if curves:
            finish(report, steepest, waits_of_runs, curves)


def finish(report: Report, steepest: float, waits_of_runs: list[str], curves: list[Any]) -> None:
    """Prints what there is to say of all runs, and writes the files."""
    print(f"\nsteepest: {steepest:+.2f} MB a minute; goal: below {WANTED:g}")
    print(
        "\n".join(f"run {run}: {waited} of the time" for run, waited in enumerate(waits_of_runs, 1))
    )
    report.finish("MB a minute", WANTED, steepest=steepest, waited=waits_of_runs, curves=curves)


def watch(own: Own, settings: Settings) -> tuple[list[str], np.ndarray, dict[str, float]]:
    """A run: its processes' names, [N, 1 + P] seconds and megabytes, and who waited how much."""
    with Trainer(settings, own.actors, report_every_s=min(10.0, own.seconds / 3)) as trainer:
        trainer.wait_for_update()
        processes = [psutil.Process(pid) for pid in trainer.roles]
        rows: list[list[float]] = []
        begun = time.monotonic()
        while not rows or rows[-1][0] < own.seconds:
            seconds = time.monotonic() - begun
            rows.append([seconds, *(one.memory_info().rss / 1e6 for one in processes)])
            trainer.run_for(min(EVERY_S, own.seconds / 10))
        reports = [*trainer.reports(), trainer.next_report()]
    waits = {who: mean(reports, share) or 0.0 for who, share in WAITS.items()}
    names = ["learner", *(f"actor {task}" for task in range(own.actors))]
    return names, np.array(rows), waits


def slopes(rows: np.ndarray) -> np.ndarray:
    """[P]: megabytes a minute, of seconds and megabytes [N, 1 + P]."""
    return np.polyfit(rows[:, 0] / 60, rows[:, 1:], 1)[0]


if __name__ == "__main__":
    sys.exit(common.run("memory", measure))
