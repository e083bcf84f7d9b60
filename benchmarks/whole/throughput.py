"""The whole trainer at steady state, beside what its parts could do on the same cores.

  python -m benchmarks throughput --level_name=PongNoFrameskip-v4 \\
    --agent_name=SimpleConvNetAgent --unroll_length=20 --batch_size=32
  python -m benchmarks throughput --job=cluster        two actor processes and a learner
  taskset -c 0 python -m benchmarks throughput --precision=float32

It starts experiment.py with the flags given, as a user would, lets it warm up and reads its
reports. Before the first run, between runs and after the last it measures the parts
alone (see benchmarks.parts.components), so that a ratio compares what was measured within minutes.

  bound    1 / (1 / emulation + 1 / inference + 1 / learning): if every step takes all three on
           the same cores and nothing else took time; of all cores' ways the better one counts
  reached  agent steps a second that the learner has trained on

Below that is the CPU time by kind of thread, and the time that the parts need alone.
"""

import dataclasses
import statistics
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from benchmarks.parts.components import what
from benchmarks.tools import common, ways
from benchmarks.tools.common import Options, Spread, spread
from benchmarks.tools.cpu_time import cpu_seconds
from benchmarks.tools.report import Column, Report
from benchmarks.tools.trainer import Trainer, mean, steady_rate
from benchmarks.tools.ways import BOUND_OF, Measured
from flags import setting
from trainer.machine.quota import usable_cores
from trainer.settings import checks
from trainer.settings.config import Settings

COLUMNS = (
    Column("run", 5),
    Column("emulation", 11, ",.0f"),
    Column("inference", 11, ",.0f"),
    Column("learning", 11, ",.0f"),
    Column("bound", 9, ",.0f"),
    Column("reached", 9, ",.0f"),
    Column("reached/bound", 14, ".3f"),
    Column("first update, s", 16, ".1f"),
    Column("policy lag", 11, ".2f"),
    Column("learner waits", 14, ".0%"),
    Column("actors wait", 12, ".0%"),
    Column("cores busy", 11, ".0%"),
)
PROFILE = (Column("where the time goes", 36), Column("µs of a core a step", 20, ",.0f"))
JOBS = ("local", "cluster")
WANTED = {"local": 0.90, "cluster": 0.80}


@dataclasses.dataclass(frozen=True)
class Own(Options):
    repeats: int = setting(5, "Measuring", "runs of the trainer", least=1)
    job: str = setting(
        "local",
        "Measuring",
        "local: one process; cluster: a learner, and actors in processes of their own",
        choices=JOBS,
    )
    actors: int = setting(2, "Measuring", "actor processes of --job=cluster", least=1, most=256)
    warm_up_s: float = setting(10.0, "Measuring", "left out of each run", least=0)
    seconds: float = setting(30.0, "Measuring", "measured of each run", above=0)
    part_seconds: float = setting(1.0, "Measuring", "for each measurement of a part", above=0)
    part_repeats: int = setting(3, "Measuring", "measurements of a part at a time", least=1)


class Reached(NamedTuple):
    """What one run of the trainer gave."""

    first_update_s: float
    steps_per_second: float
    shares: dict[str, float | None]
    cpu_us: dict[str, float]  # microseconds of a core for an agent step, by kind of thread


def measure(arguments: list[str]) -> None:
    """Prints the tables."""
    own, settings = common.parse(Own, "throughput", __doc__, arguments, trainer=True)
    checks.check(settings)
    if own.job == "cluster":
        settings = common.in_a_cluster(settings, own.actors)
    parts = [measure_parts(own, settings)]
    report = Report(
        "throughput", COLUMNS, own, parts[0][0].precision, words(own, settings, parts[0]), settings
    )
    runs: list[Reached] = []
    ratios: list[float] = []
    try:
        for index in range(own.repeats):
            reached = run_trainer(own, settings)
            parts.append(measure_parts(own, settings))
            around = [*parts[-2], *parts[-1]]
            known = [one for each in parts for one in each]
            bound = statistics.mean(ways.bound(one, known) for one in parts[-2:])
            add(report, str(index + 1), around, bound, reached)
            runs.append(reached)
            ratios.append(reached.steps_per_second / bound)
    finally:  # also where it is stopped
        if runs:
            # Actors that wait while the learner learns cannot come near it.
            goal = None if settings.algorithm.feeding.actors_wait else WANTED[own.job]
            profile = profile_of(runs, [one for each in parts for one in each])
            finish(report, spread(ratios), goal, profile)


def finish(report: Report, ratio: Spread, goal: float | None, profile: dict[str, Any]) -> None:
    """Prints what there is to say of all runs, and writes the files."""
    beside = (
        "in step: actors and learner wait for each other" if goal is None else f"goal: {goal:.2f}"
    )
    print(f"\nreached/bound: {ratio.median:.3f} ({ratio.least:.3f}–{ratio.most:.3f}); {beside}\n")
    print_profile(profile)
    report.finish("reached/bound", goal, ratio=ratio, profile=profile)


def words(own: Own, settings: Settings, measured: Sequence[Measured]) -> str:
    """The work in words."""
    how = (
        f"one process, {settings.actors.num_actors} actor threads"
        if own.job == "local"
        else f"a learner and {own.actors} actors in processes of their own"
    )
    return f"{what(settings, measured[0])}; {how}"


def measure_parts(own: Own, settings: Settings) -> list[Measured]:
    """The parts in each way that uses all cores."""
    return [
        ways.measure(settings, way, BOUND_OF, own.part_seconds, own.part_repeats, own.results)
        for way in ways.full_ways()
    ]


def run_trainer(own: Own, settings: Settings) -> Reached:
    """One run from its launch to its steady state."""
    common.progress(f"the trainer, {own.job}: {own.warm_up_s + own.seconds:g} s after its start")
    actors = own.actors if own.job == "cluster" else 0
    with Trainer(settings, actors, report_every_s=min(10.0, own.seconds / 6)) as trainer:
        first_update_s = trainer.wait_for_update()
        trainer.run_for(own.warm_up_s)
        before, used = trainer.next_report(), cpu_seconds(trainer.roles)
        trainer.run_for(own.seconds)
        after, used_since = trainer.next_report(), cpu_seconds(trainer.roles)
        reports = [
            one
            for one in trainer.reports()
            if before["wall_time"] < one["wall_time"] <= after["wall_time"]
        ]
    per_step = 1e6 / (after["agent_steps"] - before["agent_steps"])
    names = ("policy_lag", "learner_wait_share", "actor_wait_share", "cores_busy_share")
    return Reached(
        first_update_s,
        steady_rate(before, after),
        {name: mean(reports, name) for name in names},
        {kind: per_step * (total - used.get(kind, 0.0)) for kind, total in used_since.items()},
    )


def add(
    report: Report, name: str, around: Sequence[Measured], bound: float, reached: Reached
) -> None:
    """A run's row, with the parts as they were measured before and after it."""
    rate = reached.steps_per_second
    report.row(
        name,
        *[ways.best(around, part)[1].median for part in BOUND_OF],
        bound,
        rate,
        rate / bound,
        reached.first_update_s,
        *reached.shares.values(),
    )


def profile_of(runs: Sequence[Reached], measured: Sequence[Measured]) -> dict[str, Any]:
    """Microseconds of a core for an agent step: where they went, and what the parts alone need."""
    cores = usable_cores()
    kinds = {kind for run in runs for kind in run.cpu_us}
    used = {kind: statistics.median(run.cpu_us.get(kind, 0.0) for run in runs) for kind in kinds}
    passed = statistics.median(1e6 * cores / run.steps_per_second for run in runs)
    needed = {part: 1e6 * cores / ways.best(measured, part)[1].median for part in BOUND_OF}
    return {
        "used": dict(sorted(used.items(), key=lambda item: -item[1])),
        "not used by the trainer": passed - sum(used.values()),
        "passed": passed,
        "needed alone": needed,
    }


def print_profile(profile: dict[str, Any]) -> None:
    """The profile as a table."""
    rows = {
        **profile["used"],
        "idle, or other processes": profile["not used by the trainer"],
        "all together": profile["passed"],
        **{f"{part} alone needs": value for part, value in profile["needed alone"].items()},
        "the parts together": sum(profile["needed alone"].values()),
    }
    for cells in ([column.title for column in PROFILE], *rows.items()):
        print("  ".join(c.written(cell) for c, cell in zip(PROFILE, cells, strict=True)).rstrip())


if __name__ == "__main__":
    sys.exit(common.run("throughput", measure))
