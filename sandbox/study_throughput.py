"""How fast one learner trains with more and more actors, and how fast several learners are.

    python -m sandbox.study_throughput [--actors=1,2,3,4] [--learners=1,2] [--out=…] [--smoke]
        [-- flags of benchmarks scaleup]

All are processes of this machine. A learner trains with each number of actors; then learners
average their gradients over unrolls that they make up, as actors for several of them would need
more cores than one machine has. Published rates of impala_horovod_gym on many machines stand
beside both.

What it writes after each turn: OUT.csv with the rate of each turn, OUT.png, OUT.json with machine
and command. At the end the tables are printed in Markdown. Turns that are in OUT.csv already count:
the same command goes on where it was.
"""

import argparse
import csv
import json
import shlex
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import flags
from benchmarks.plan import cost_fit
from benchmarks.tools import common
from benchmarks.tools.trainer import rate_of
from benchmarks.whole.scaleup import options
from benchmarks.whole.scaleup.__main__ import check_mpirun, described, in_turns, measured
from benchmarks.whole.scaleup.cases import Case
from benchmarks.whole.scaleup.options import Chosen
from benchmarks.whole.scaleup.report import Rates, against_one
from sandbox import studies
from trainer.machine.launching import PROJECT
from trainer.machine.provenance import machine, versions
from user_error import UserError, exit_code

PUBLISHED = PROJECT / "benchmarks" / "plan" / "measured" / "published.csv"
OUT, SMOKE_OUT = "docs/studies/throughput", "logs/studies/throughput-smoke"
SMOKE = (
    "--level_name=CartPole-v1",
    "--envs_per_actor=4",
    "--batch_size=4",
    "--repeats=1",
    "--windows=1",
    "--warm_up=1",
    "--window_s=0.5",
)


class Point(NamedTuple):
    """A rate in agent steps/s, of several turns their median, and the range of them."""

    number: int  # of actors of one learner, or of learners
    rate: float
    share: float  # of the most that one learner does, or of as many times one learner
    least: float
    most: float


class Group(NamedTuple):
    """Who was measured: one learner with more and more actors, and more and more learners."""

    name: str
    actors: list[Point]
    learners: list[Point]


def main() -> int:
    """Runs the study."""
    common.unwind_when_stopped()
    own, added = sys.argv[1:], []
    if "--" in own:
        at = own.index("--")
        own, added = own[:at], own[at + 1 :]

    def run() -> None:
        given = _parser().parse_args(own)
        numbers = [f"--actors={given.actors}", f"--learners={given.learners}"]
        chosen = options.parse([*numbers, *(SMOKE if given.smoke else ()), *added])
        todo = [Case(1, actors) for actors in chosen.actors]
        todo += [Case(learners, 0) for learners in chosen.learners]
        if chosen.hosts.workers_csv_path or 0 in chosen.actors:
            raise UserError("this is for one machine and real actors; see benchmarks scaleup.")
        check_mpirun(todo)
        default = SMOKE_OUT if given.smoke else OUT
        out = studies.place(default if given.out is None else given.out)
        rates = {case: [] for case in todo} if given.smoke else measured_before(out, todo, chosen)
        turns = min(map(len, rates.values()))
        if turns >= chosen.options.repeats:
            if not studies.file(out, "png").exists():  # there was no room for all files
                write(out, rates, chosen)
            print(f"{out}.csv has {turns} turns already. Give more --repeats, or another --out.")
            return
        measure(out, chosen, rates)

    return exit_code("study_throughput.py", run)


def _parser() -> argparse.ArgumentParser:
    parser = flags.empty_parser(
        "python -m sandbox.study_throughput",
        "More and more actors for one learner, and more and more learners.",
        "Behind -- may stand flags of benchmarks scaleup, training's among them, as in\n"
        "  python -m sandbox.study_throughput --out=logs/throughput -- --envs_per_actor=10",
    )
    parser.add_argument("--out", help=f"OUT.csv, .png, .json (default: {OUT})")
    parser.add_argument("--actors", default="1,2,3,4", help="of one learner (default: 1,2,3,4)")
    parser.add_argument("--learners", default="1,2", help="numbers of learners (default: 1,2)")
    parser.add_argument("--smoke", action="store_true", help="only see that it works, in seconds")
    return parser


def measured_before(out: Path, todo: Sequence[Case], chosen: Chosen) -> Rates:
    """The turns that OUT.csv has already; a ``UserError`` if they are of other settings."""
    rates: Rates = {case: [] for case in todo}
    if not studies.file(out, "json").exists():
        return rates
    try:
        record = json.loads(studies.file(out, "json").read_text())
        for row in _rows(studies.file(out, "csv")):
            learners = int(row["learners"])
            case = Case(learners, int(row["actors"]) // learners)
            rates.setdefault(case, []).append(float(row["steps_per_second"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"--out={out} cannot be gone on with ({error}). Give another.") from None
    if list(rates) != list(todo) or len({bool(turns) for turns in rates.values()}) > 1:
        raise UserError(f"--out={out} has other --actors or --learners. Give these, or another.")
    for name, now in described(chosen, min(map(len, rates.values()))).items():
        if _without_turns(str(record.get(name))) != _without_turns(now):
            raise UserError(
                f"--out={out} has turns of other settings or of another machine ({name}: "
                f"{record.get(name)}; now: {now}). Give another --out."
            )
    return rates


def _rows(table: Path) -> list[dict[str, str]]:
    """The rows of a table; none where there was no room for it."""
    if not table.exists():
        return []
    with open(table, newline="") as file:
        return list(csv.DictReader(file))


def _without_turns(how: str) -> str:
    """How it is measured; a full disk may have taken the number of turns, but not their table."""
    return how.rpartition(" turns; ")[2]


def measure(out: Path, chosen: Chosen, rates: Rates) -> None:
    """Measures all rates, turn by turn, and writes them after each."""
    seconds = chosen.options.windows * chosen.options.window_s

    def rate(case: Case) -> float:
        # A learner with actors has all cores; learners alone have one each, to be compared.
        if case.actors:
            settings = common.in_a_cluster(chosen.settings, case.actors)
            return rate_of(settings, case.actors, seconds)
        return measured(case, chosen)

    in_turns(
        rates,
        chosen.options.repeats,
        rate,
        lambda whole: print(table([here(whole), published()])),
        lambda whole: write(out, whole, chosen),
    )
    print(f"Written: {out}.csv, {out}.png, {out}.json")


def here(rates: Rates) -> Group:
    """What was measured."""
    points = {
        case: Point(
            case.actors or case.learners,
            statistics.median(turns),
            against_one(rates, case).median if case.actors == 0 else 0.0,
            min(turns),
            max(turns),
        )
        for case, turns in rates.items()
    }
    return Group(
        "this trainer, here",
        _of_the_most([point for case, point in points.items() if case.actors]),
        [point for case, point in points.items() if not case.actors],
    )


def published() -> Group:
    """Published rates; their second rate of one learner starts their second table."""
    rows = cost_fit.read_measured(PUBLISHED)
    second = max(i for i, row in enumerate(rows) if row.cluster.learners == 1)
    alone = rows[second].steps_per_s

    def point(number: int, rate: float, share: float) -> Point:
        return Point(number, rate, share, rate, rate)

    return Group(
        "impala_horovod_gym, published",
        _of_the_most([point(row.cluster.actors, row.steps_per_s, 0.0) for row in rows[:second]]),
        [
            point(n := row.cluster.learners, row.steps_per_s, row.steps_per_s / (n * alone))
            for row in rows[second:]
        ],
    )


def _of_the_most(points: Sequence[Point]) -> list[Point]:
    most = max(point.rate for point in points)
    return [point._replace(share=point.rate / most) for point in points]


def write(out: Path, rates: Rates, chosen: Chosen) -> None:
    """The rate of each turn, and how they were measured."""
    command = shlex.join(["python", "-m", "sandbox.study_throughput", *sys.argv[1:]])
    about = {"command": command, "machine": machine(), "versions": versions()}
    about = about | described(chosen, min(map(len, rates.values())))
    rows = [
        (case.learners, case.learners * case.actors, turn, f"{rate:.1f}")
        for case, turns in rates.items()
        for turn, rate in enumerate(turns, start=1)
    ]
    columns = ("learners", "actors", "turn", "steps_per_second")
    studies.write(out, about, columns, rows, lambda: draw([here(rates), published()]))


def table(groups: Sequence[Group]) -> str:
    """Both tables in Markdown."""
    lines = [
        "| | actors of one learner | agent steps/s | of the most |",
        "| --- | --- | --- | --- |",
    ]
    lines += [_row(group.name, point) for group in groups for point in group.actors]
    lines += ["", "| | learners | agent steps/s | efficiency |", "| --- | --- | --- | --- |"]
    lines += [_row(group.name, point) for group in groups for point in group.learners]
    return "\n".join(lines)


def _row(name: str, point: Point) -> str:
    spread = "" if point.least == point.most else f" ({point.least:,.0f}–{point.most:,.0f})"
    return f"| {name} | {point.number} | {point.rate:,.0f}{spread} | {point.share:.2f} |"


def draw(groups: Sequence[Group]) -> Any:
    """Rates over actors, a panel for each group, as their numbers differ; then efficiency."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(11, 3.8), layout="constrained")
    panels = figure.subplots(1, len(groups) + 1)
    for index, (axes, group) in enumerate(zip(panels, groups, strict=False)):
        _line(axes, group.actors, f"C{index}", group.name, "rate")
        _line(panels[-1], group.learners, f"C{index}", group.name, "share")
        axes.set(xlabel="actors of one learner", ylabel="agent steps/s", title=group.name)
    panels[-1].set(xlabel="learners", ylabel="of as many times one", title="efficiency")
    panels[-1].legend(frameon=False, fontsize=8)
    for axes in panels:
        axes.set_ylim(bottom=0)
        axes.set_xlim(left=0)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _line(axes: Any, points: Sequence[Point], color: str, name: str, what: str) -> None:
    values = [getattr(point, what) for point in points]
    axes.plot([point.number for point in points], values, color=color, marker="o", label=name)
    if what == "rate":
        low, high = [[getattr(one, end) for one in points] for end in ("least", "most")]
        axes.fill_between([one.number for one in points], low, high, color=color, alpha=0.15)


if __name__ == "__main__":
    sys.exit(main())
