"""What was measured: as a table, as JSON and as a picture."""

import json
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.tools import files
from benchmarks.whole.scaleup.cases import Case

Rates = dict[Case, list[float]]  # agent steps a second, one a turn

WANTED = 0.95
HEAD = ("learners", "actors of each", "agent steps/s", "range", "apart", "against one alone",
        "against learners apart")  # fmt: skip


class Ratio(NamedTuple):
    """A ratio taken in each turn."""

    median: float
    least: float
    most: float

    def __str__(self) -> str:
        return f"{self.median:.3f} ({self.least:.2f}–{self.most:.2f})"


def ratio(rates: Rates, case: Case, to: Case, times: int = 1) -> Ratio:
    """A case's rate, as a share of ``times`` another one's."""
    each = [one / (times * other) for one, other in zip(rates[case], rates[to], strict=True)]
    return Ratio(statistics.median(each), min(each), max(each))


def against_one(rates: Rates, case: Case) -> Ratio:
    """Against as many times one learner alone."""
    return ratio(rates, case, Case(1, case.actors), case.learners)


def against_apart(rates: Rates, case: Case) -> Ratio:
    """Against as many learners that do not talk to one another."""
    return ratio(rates, case, case._replace(apart=case.learners > 1))


def table(rates: Rates) -> str:
    """A line for each number of learners and actors."""
    lines = [HEAD]
    for case in _together(rates):
        apart = rates[case._replace(apart=True)] if case.learners > 1 else rates[case]
        lines.append(
            (
                f"{case.learners}",
                f"{case.actors}" if case.actors else "0: synthetic",
                f"{statistics.median(rates[case]):,.0f}",
                f"{min(rates[case]):,.0f}–{max(rates[case]):,.0f}",
                f"{statistics.median(apart):,.0f}",
                str(against_one(rates, case)),
                str(against_apart(rates, case)),
            )
        )
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(f"{text:>{width}}" for text, width in zip(line, widths, strict=True))
        for line in lines
    )


def write_json(path: Path, rates: Rates, about: dict[str, Any]) -> None:
    """All figures, those of each turn as well."""
    found = [
        {
            "learners": case.learners,
            "actors_of_each": case.actors,
            "steps_per_second": rates[case],
            "apart_steps_per_second": rates[case._replace(apart=case.learners > 1)],
            "against_one_alone": against_one(rates, case)._asdict(),
            "against_learners_apart": against_apart(rates, case)._asdict(),
        }
        for case in _together(rates)
    ]
    files.write(path, json.dumps({**about, "cases": found}, indent=2) + "\n")


def draw(path: Path, rates: Rates, title: str) -> None:
    """Throughput and both ratios over the number of learners."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    figure.suptitle(title, fontsize=10)
    left, right = figure.subplots(1, 2)
    for number, actors in enumerate(sorted({case.actors for case in rates})):
        cases = [case for case in _together(rates) if case.actors == actors]
        counts = [case.learners for case in cases]
        name = f"{actors} actors each" if actors else "synthetic unrolls"
        style = {"color": f"C{number}", "marker": "o"}
        medians = [statistics.median(rates[case]) for case in cases]
        left.plot(counts, medians, label=name, **style)
        apart = [statistics.median(rates[c._replace(apart=c.learners > 1)]) for c in cases]
        left.plot(counts, apart, label=f"{name}, learners apart", linestyle=":", **style)
        _draw_ratios(right, f"{name}, against learners apart", rates, cases, against_apart, style)
        dashed = style | {"linestyle": "--", "alpha": 0.6}
        _draw_ratios(right, f"{name}, against one alone", rates, cases, against_one, dashed)
    left.set_ylabel("agent steps a second")
    right.set_ylabel("efficiency")
    right.axhline(WANTED, color="#8a8f98", linewidth=0.8)
    right.set_ylim(0, 1.1)
    for axes in (left, right):
        axes.set_xlabel("learners")
        axes.set_xticks(sorted({case.learners for case in rates}))
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.legend(fontsize=7, frameon=False)
    files.draw(path, figure)


def _draw_ratios(
    axes: Any,
    name: str,
    rates: Rates,
    cases: Sequence[Case],
    measure: Callable[[Rates, Case], Ratio],
    style: dict[str, Any],
) -> None:
    found = [measure(rates, case) for case in cases]
    errors = [[one.median - one.least for one in found], [one.most - one.median for one in found]]
    counts = [case.learners for case in cases]
    medians = [one.median for one in found]
    axes.errorbar(counts, medians, yerr=errors, label=name, capsize=3, **style)


def _together(rates: Rates) -> Iterator[Case]:
    return (case for case in rates if not case.apart)
