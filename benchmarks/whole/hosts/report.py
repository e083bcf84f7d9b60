"""What was measured, and a line through it: as a table, as JSON, as a picture."""

import dataclasses
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.tools import files
from benchmarks.whole.hosts.frontend import Cost

ACTIONS = ("start", "status", "stop")
EXTENDED_TO = 256


@dataclasses.dataclass(frozen=True)
class Run:
    """A run on so many hosts: how many of them play, and what each action has cost."""

    hosts: int
    real: int
    cut_s: float
    costs: dict[str, Cost]


class Line(NamedTuple):
    """base + hosts × each, fitted to ``points`` numbers of hosts."""

    base: float
    each: float
    points: int

    def at(self, hosts: int) -> float:
        """What it says of so many hosts."""
        return self.base + self.each * hosts


def line(runs: Sequence[Run], action: str, of: str) -> Line | None:
    """The line of least squares through runs that were all alike; None for less than two."""
    found = [(run.hosts, getattr(run.costs[action], of)) for run in runs if not run.cut_s]
    numbers = {hosts for hosts, _ in found}
    if len(numbers) < 2:
        return None
    each, base = statistics.linear_regression(*zip(*found, strict=True))
    return Line(base, each, len(numbers))


def table(runs: Sequence[Run]) -> str:
    """A row for each action of each run, and one for what the lines say."""
    lines = [f"{'hosts':>5}  {'playing':>7}  {'action':<16}" + _titles()]
    for run in runs:
        for action, cost in run.costs.items():
            cut = f", cut {run.cut_s:g} s" if run.cut_s and action == "start" else ""
            lines.append(f"{run.hosts:>5}  {run.real:>7}  {action + cut:<16}" + _cells(cost))
    alike = [run for run in runs if not run.real]
    for action in ACTIONS:
        fitted = [line(alike, action, of) for of in Cost._fields]
        if all(fitted):
            cost = Cost(*[one.at(EXTENDED_TO) for one in fitted if one])
            points = fitted[0].points if fitted[0] else 0
            lines.append(f"{EXTENDED_TO:>5}  {'line':>7}  {action:<16}" + _cells(cost))
            lines[-1] += f"  extended, fitted to {points} numbers of hosts"
    return "\n".join(lines)


def write_json(path: Path, runs: Sequence[Run], about: dict[str, Any]) -> None:
    """All figures, and the lines."""
    alike = [run for run in runs if not run.real]
    fitted = {
        action: {
            of: one and one._asdict() for of in Cost._fields for one in [line(alike, action, of)]
        }
        for action in ACTIONS
    }
    rows = [
        {**dataclasses.asdict(run), "costs": {a: c._asdict() for a, c in run.costs.items()}}
        for run in runs
    ]
    files.write(path, json.dumps({**about, "runs": rows, "lines": fitted}, indent=2) + "\n")


def draw(path: Path, runs: Sequence[Run], title: str) -> None:
    """Each cost over the number of hosts, with its line up to 256."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 6.4), layout="constrained")
    figure.suptitle(title, fontsize=9)
    alike = [run for run in runs if not run.real]
    for axes, of in zip(figure.subplots(2, 3).flat, Cost._fields, strict=True):
        for number, action in enumerate(ACTIONS):
            color = f"C{number}"
            for run in runs:
                marker = "x" if run.cut_s and action == "start" else "s" if run.real else "o"
                value = getattr(run.costs[action], of)
                axes.plot(run.hosts, value, marker, color=color, fillstyle="none")
            fitted = line(alike, action, of)
            if fitted:
                ends = [min(run.hosts for run in alike), EXTENDED_TO]
                values = [fitted.at(one) for one in ends]
                axes.plot(ends, values, "--", color=color, linewidth=0.9, label=action)
        axes.set_title(of.replace("_", " "), fontsize=9)
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.25, linewidth=0.6)
    if figure.axes[0].get_legend_handles_labels()[0]:
        figure.axes[0].legend(fontsize=7, frameon=False)
    figure.supxlabel(
        "hosts (o: idle programs; square: some play; x: a link was cut; dashed: line, extended)",
        fontsize=8,
    )
    files.draw(path, figure)


def _titles() -> str:
    titles = ("seconds", "CPU s", "descriptors", "threads", "MB sent", "MB received")
    return "".join(f"  {title:>11}" for title in titles)


def _cells(cost: Cost) -> str:
    forms = (".1f", ".1f", ".0f", ".0f", ".2f", ".2f")
    return "".join(f"  {value:>11{form}}" for value, form in zip(cost, forms, strict=True))
