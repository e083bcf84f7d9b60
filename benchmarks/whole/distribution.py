"""Where distribution pays: levels by the time of a step, played in one process and by several.

  python -m benchmarks distribution
  python -m benchmarks distribution --steps_ms=0.1,1 --kinds=busy --ways=process,actors

The level is a dummy, whose steps take as long as its name says. They are busy, so that they need
a core, or waiting, as a simulator on other cores or a device does. A small network learns from two
actors with as many environments each, in one of these ways:

  threads   one process; its two actors step their environments themselves
  process   one process with its defaults: where steps are dear, it starts worker processes
  actors    a learner and two actors, three processes on this machine
  hosts     a learner and two actors on three hosts: network namespaces on a bridge. Takes root

All share this machine's cores, so hosts show what the network costs, not what more cores gain. The
rate is that of the learner. All ways take turns; a ratio is taken within a turn, to the better one
of threads and process.
"""

import dataclasses
import functools
import itertools
import statistics
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.tools import common, namespaces
from benchmarks.tools.common import Options, Spread, spread
from benchmarks.tools.machine import precision
from benchmarks.tools.report import Column, Report
from benchmarks.tools.trainer import rate_of
from environments.names import find
from flags import setting
from trainer.settings.config import Settings
from user_error import UserError

KINDS = {"busy": "", "waiting": "-wait"}
ALONE = ("threads", "process")
WAYS = (*ALONE, "actors", "hosts")
ACTORS = 2
COLUMNS = (
    Column("ms a step", 10),
    Column("steps are", 10),
    Column("way", 8),
    Column("agent steps/s", 26, ",.0f"),
    Column("of one process", 20, ".2f"),
)


@dataclasses.dataclass(frozen=True)
class Own(Options):
    repeats: int = setting(3, "Measuring", "turns: times that each case is measured", least=1)
    steps_ms: str = setting(
        "0.01,0.03,0.1,0.3,1,3,10", "Measuring", "milliseconds of a step, with commas between"
    )
    kinds: str = setting(",".join(KINDS), "Measuring", "kinds of steps, with commas between")
    ways: str = setting(",".join(WAYS), "Measuring", "what is compared, with commas between")
    observation: str = setting("16", "Measuring", "bytes, or HEIGHTxWIDTHxCHANNELS, of the dummy")
    envs: int = setting(8, "Measuring", "environments of each of the two actors", least=1)
    batch_size: int = setting(16, "Measuring", "unrolls in an update", least=1)
    unroll_length: int = setting(10, "Measuring", "agent steps in an unroll", least=1)
    seconds: float = setting(6.0, "Measuring", "for each measurement", above=0)


class Case(NamedTuple):
    """What one measurement is of."""

    step_ms: str
    kind: str
    way: str


Rates = Mapping[Case, Sequence[float]]


def measure(arguments: list[str]) -> None:
    """Prints the table."""
    own, _ = common.parse(Own, "distribution", __doc__, arguments)
    ways = common.words("ways", own.ways, WAYS)
    todo = [
        Case(*case)
        for case in itertools.product(
            own.steps_ms.split(","), common.words("kinds", own.kinds, KINDS), ways
        )
    ]
    for case in todo:
        find(level(own, case))  # refuses before anything is measured
    if not set(ALONE) & set(ways):
        raise UserError(f"--ways={own.ways}: expected one of {', '.join(ALONE)} to compare with.")
    why = namespaces.missing() if "hosts" in ways else ""
    if why:
        raise UserError(f"--ways={own.ways}: hosts {why}; --ways=threads,process,actors does not.")
    what = f"dummy levels of {own.observation} bytes, {ACTORS} actors of {own.envs} environments"
    report = Report("distribution", COLUMNS, own, precision(Settings()), what)
    calls = {case: functools.partial(measured, own, case) for case in todo}
    rates: dict[Case, list[float]] = {case: [] for case in todo}
    with common.whole_turns(rates, functools.partial(write, report)):
        for turn, (case, call) in itertools.product(range(1, own.repeats + 1), calls.items()):
            rates[case].append(call())
            now = f"{' '.join(case)} {rates[case][-1]:,.0f}/s"
            common.progress(f"turn {turn} of {own.repeats}: {now}")


def write(report: Report, rates: Rates) -> None:
    """Prints the rows and writes the files."""
    for case in rates:
        report.row(*case, spread(rates[case]), ratio(rates, case))
    report.finish("of one process", draw=functools.partial(draw, rates))


def measured(own: Own, case: Case) -> float:
    """Agent steps a second at the learner."""
    settings = settings_of(own, case)
    if case.way in ALONE:
        return rate_of(settings, 0, own.seconds)
    if case.way == "actors":
        return rate_of(settings, ACTORS, own.seconds)
    with namespaces.Bridge() as bridge:
        hosts = [bridge.add() for _ in range(1 + ACTORS)]
        return rate_of(settings, ACTORS, own.seconds, hosts)


def settings_of(own: Own, case: Case) -> Settings:
    """The flags of its processes."""
    settings = Settings(
        level_name=level(own, case),
        envs_per_actor=own.envs,
        batch_size=own.batch_size,
        unroll_length=own.unroll_length,
        seed=own.seed,
    )
    if case.way == "process":
        return settings
    # Actors in processes of their own need no further ones.
    return settings.replace(env_processes="0", actors_on_host=1 if case.way in ALONE else ACTORS)


def level(own: Own, case: Case) -> str:
    """The name of its level."""
    try:
        per_second = 1000 / float(case.step_ms)
    except (ValueError, ZeroDivisionError):
        per_second = 0.0
    if not 1e-3 <= per_second <= 1e7:
        raise UserError(
            f"--steps_ms={own.steps_ms}: expected milliseconds, more than 0, separated by commas."
        )
    return f"dummy:{own.observation}-{per_second:.6f}{KINDS[case.kind]}"


def ratio(rates: Rates, case: Case) -> Spread:
    """The rate as a share of the better way in one process, in each turn."""
    alone = [rates[one] for one in rates if one.way in ALONE and one[:2] == case[:2]]
    best = max(alone, key=statistics.median)
    return spread([mine / other for mine, other in zip(rates[case], best, strict=True)])


def draw(rates: Rates, axes: Any) -> None:
    """The ratios over the time of a step."""
    styles = dict(zip(KINDS, ("-", "--"), strict=True))
    for kind, way in itertools.product(KINDS, WAYS):
        cases = [case for case in rates if case.kind == kind and case.way == way]
        if not cases:
            continue
        found = [ratio(rates, case) for case in cases]
        medians = [one.median for one in found]
        ends = [[b.median - b.least for b in found], [b.most - b.median for b in found]]
        axes.errorbar(
            [float(case.step_ms) for case in cases],
            medians,
            yerr=ends,
            label=f"{way}, {kind} steps",
            linestyle=styles[kind],
            color=f"C{WAYS.index(way)}",
            marker="o",
            capsize=3,
        )
    axes.axhline(1.0, color="#8a8f98", linewidth=0.8)
    axes.set(xscale="log", xlabel="milliseconds of a step", ylabel="rate, of one process")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=8, ncols=2)
    axes.grid(alpha=0.25, linewidth=0.6)


if __name__ == "__main__":
    sys.exit(common.run("distribution", measure))
