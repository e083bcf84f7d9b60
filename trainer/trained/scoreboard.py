"""The output of an evaluation: its progress, and its figures as a table."""

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, TextIO, cast

import numpy as np
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from trainer.machine.terminal import Unfailing
from trainer.reporting.wording import NONE

PLAIN_WIDTH = 160
PLAIN_REPORT_EVERY_S = 10.0

# figure: its heading and format
COLUMNS = {
    "episodes": ("games", "d"),
    "unfinished": ("cut off", "d"),
    "mean": ("mean", ",.2f"),
    "interval_of_mean": ("95% of means", ",.2f"),
    "clipped_mean": ("clipped", ",.2f"),
    "median": ("median", ",.2f"),
    "standard_deviation": ("std", ",.2f"),
    "min": ("min", ",.6g"),
    "max": ("max", ",.6g"),
    "mean_length": ("steps", ",.1f"),
    "human_normalised_percent": ("human %", ",.1f"),
}


def console() -> Console:
    """Standard output, wide enough for the table unless a terminal limits it."""
    in_terminal = sys.stdout.isatty()
    stream = cast(TextIO, Unfailing(sys.stdout))
    # A notebook looks like a terminal to rich, but shows plain lines only.
    return Console(
        file=stream,
        force_terminal=in_terminal,
        width=None if in_terminal else PLAIN_WIDTH,
        highlight=False,
        markup=False,
        soft_wrap=True,
        force_jupyter=False,
    )


def print_figures(
    shown_on: Console, results: dict[str, dict[str, Any]], what: str = "level"
) -> None:
    """Prints a row for each level or combination, without figures that say nothing.

    ``results`` come from ``trainer.trained.evaluation.summary``.
    """
    known = {
        name: column
        for name, column in COLUMNS.items()
        if any(_says_something(name, figures) for figures in results.values())
    }
    rows = {
        level: [_shown(figures[name], form) for name, (_, form) in known.items()]
        for level, figures in results.items()
    }
    print_table(shown_on, what, [heading for heading, _ in known.values()], rows)


def print_table(
    shown_on: Console, what: str, headings: Sequence[str], rows: Mapping[str, Sequence[str]]
) -> None:
    """Prints figures by name; those that a narrow terminal has no room for in further tables."""
    unlimited = shown_on.options.update_width(10_000)
    least_for_name = shown_on.width // 3  # where it is longer: it may go on in a second line
    while headings:
        count = len(headings)
        while count > 1:
            drawn = _table(what, headings[:count], rows, least_for_name)
            if shown_on.measure(drawn, options=unlimited).maximum <= shown_on.width:
                break
            count -= 1
        shown_on.print(_table(what, headings[:count], rows), soft_wrap=False)
        headings = headings[count:]
        rows = {name: cells[count:] for name, cells in rows.items()}


def _table(
    what: str,
    headings: Sequence[str],
    rows: Mapping[str, Sequence[str]],
    most_for_name: int | None = None,
) -> Table:
    """The first figures of each row, as many as there are headings."""
    drawn = Table(box=box.SIMPLE_HEAD, padding=(0, 1), collapse_padding=True)
    drawn.add_column(what, overflow="fold", max_width=most_for_name)
    for heading in headings:
        drawn.add_column(heading, justify="right", no_wrap=True)
    for name, cells in rows.items():
        drawn.add_row(name, *cells[: len(headings)])
    return drawn


def _says_something(name: str, figures: dict[str, Any]) -> bool:
    if name == "clipped_mean":
        return figures["clipped_mean"] != figures["mean"]
    return bool(figures[name]) if name == "unfinished" else figures[name] is not None


def _shown(value: Any, form: str) -> str:
    if isinstance(value, list):
        return " – ".join(format(one, form) for one in value)
    return NONE if value is None else format(value, form)


class Counter:
    """Shows how many episodes are over: a bar on a terminal, otherwise a line now and then."""

    def __init__(self, shown_on: Console, level_name: str, total: int):
        self._console, self._level, self.total = shown_on, level_name, total
        self._returns: list[float] = []
        self._printed = time.monotonic()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("mean return {task.fields[mean]}"),
            TimeElapsedColumn(),
            console=shown_on,
            transient=True,
            disable=not shown_on.is_terminal,
        )
        self._task = self._bar.add_task(level_name, total=total, mean=NONE)

    def __enter__(self) -> "Counter":
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def add(self, raw_returns: list[float]) -> None:
        """Counts games that were played; none of them may count, as those of an opponent."""
        if not raw_returns:
            return
        self._returns += raw_returns
        mean = f"{np.mean(self._returns):,.2f}"
        self._bar.update(self._task, completed=len(self._returns), total=self.total, mean=mean)
        if self._bar.disable and time.monotonic() - self._printed > PLAIN_REPORT_EVERY_S:
            self._printed = time.monotonic()
            self._console.print(
                f"{self._level}: {len(self._returns)} of {self.total} games, mean return {mean}"
            )
