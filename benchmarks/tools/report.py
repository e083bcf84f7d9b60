"""A benchmark's report: a table on the terminal; the same as NAME.json and NAME.png in a folder."""

import contextlib
import dataclasses
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.tools import files
from benchmarks.tools.common import Once, Spread, spread
from trainer.machine import provenance
from trainer.settings.config import Settings

APART = " · "


class Column(NamedTuple):
    """A column of a report's table."""

    title: str
    width: int
    form: str = ""  # how a number is written; a column of text has none

    def written(self, cell: Any) -> str:
        """A cell as the table shows it, as wide as the column."""
        if isinstance(cell, Spread):
            ends = f"{cell.least:{self.form}}–{cell.most:{self.form}}"
            cell = f"{cell.median:{self.form}} ({ends})"
        elif cell is None:
            cell = "–"
        elif self.form and not isinstance(cell, str):
            cell = f"{cell:{self.form}}"
        return f"{cell:>{self.width}}" if self.form else f"{cell:<{self.width}}"


class Report:
    """A table that is printed row by row as it is measured, and written to files at the end."""

    def __init__(
        self,
        name: str,
        columns: Sequence[Column],
        options: Once,
        precision: str,
        what: str,
        settings: Settings | None = None,
    ):
        """``precision`` is the arithmetic, ``what`` the work that is measured, in words."""
        self._name = name
        self._columns = columns
        self._rows: list[list[Any]] = []
        self._folder = Path(options.results)
        self._machine = f"{provenance.machine()}, {precision}"
        self._what = what
        self._about = {
            "benchmark": name,
            "machine": self._machine,
            "what": what,
            "time": time.strftime("%Y-%m-%d %H:%M:%S"),
            "options": dataclasses.asdict(options),
            "settings": settings and settings.flat(),
        }
        print(f"{self._machine}\n{what}\n")
        self._print([column.title for column in columns])

    def row(self, *cells: Any) -> None:
        """Adds a row: numbers, spreads, words, or None for an empty cell."""
        self._rows.append(list(cells))
        self._print(cells)

    @contextlib.contextmanager
    def finished(self, shown: str, wanted: float | None = None) -> Iterator[dict[str, Any]]:
        """Writes the files at the end of the block; if that is stopped or fails, too.

        With the figures that the block adds to what it is given.
        """
        figures: dict[str, Any] = {}
        try:
            yield figures
        finally:
            self.finish(shown, wanted, **figures)

    def finish(
        self,
        shown: str,
        wanted: float | None = None,
        draw: Callable[[Any], None] | None = None,
        **figures: Any,
    ) -> None:
        """Writes the files: the picture shows the column ``shown``, and ``wanted`` as a line.

        ``draw`` makes another picture, on axes. Without a figure in that column nothing is written:
        failures alone are not worth an earlier file.
        """
        titles = [column.title for column in self._columns]
        if all(row[titles.index(shown)] is None for row in self._rows):
            return
        rows = [dict(zip(titles, map(_plain, row), strict=True)) for row in self._rows]
        kept = self._about | {"rows": rows} | {name: _plain(one) for name, one in figures.items()}
        path = files.folder(str(self._folder)) / f"{self._name}.json"
        files.write(path, json.dumps(kept, indent=2) + "\n")
        self._draw(titles.index(shown), wanted, draw)
        print(f"\n{path} and {path.with_suffix('.png').name} written")

    def _named(self, column: int, cell: str) -> str:
        """A row's word in the picture; a number gets the column's title."""
        return f"{cell} {self._columns[column].title}" if cell.isdigit() else cell

    def _print(self, cells: Sequence[Any]) -> None:
        written = [column.written(cell) for column, cell in zip(self._columns, cells, strict=True)]
        print("  ".join(written).rstrip(), flush=True)

    def _draw(self, shown: int, wanted: float | None, draw: Callable[[Any], None] | None) -> None:
        from matplotlib.figure import Figure  # takes a second to import; not during measurements

        rows = 9 if draw else sum(row[shown] is not None for row in self._rows)
        figure = Figure(figsize=(9, 1.4 + 0.32 * rows), layout="constrained")
        axes = figure.subplots()
        if draw:
            draw(axes)
        else:
            self._draw_bars(axes, shown)
        if wanted is not None:
            axes.axvline(wanted, color="#d1242f", linewidth=1)
        axes.set_title(f"{self._name}: {self._what}\n{self._machine}", fontsize=9)
        files.draw(self._folder / f"{self._name}.png", figure)

    def _draw_bars(self, axes: Any, shown: int) -> None:
        """A bar for each row that has a value there, named by the row's words."""
        named = [i for i, column in enumerate(self._columns) if not column.form]
        rows = [row for row in self._rows if row[shown] is not None]
        names = [APART.join(self._named(i, row[i]) for i in named if row[i]) for row in rows]
        bars = [_as_spread(row[shown]) for row in rows]
        medians = [bar.median for bar in bars]
        ends = [[b.median - b.least for b in bars], [b.most - b.median for b in bars]]
        axes.barh(range(len(bars)), medians, xerr=ends, color="#1f6feb", ecolor="#30363d")
        axes.set_yticks(range(len(bars)), names, fontsize=8)
        axes.invert_yaxis()
        positive = [median for median in medians if median > 0]
        if positive and max(positive) > 50 * min(positive):
            axes.set_xscale("log")
        axes.set_xlabel(self._columns[shown].title)


def _as_spread(cell: Any) -> Spread:
    return cell if isinstance(cell, Spread) else spread([float(cell)])


def _plain(cell: Any) -> Any:
    """A cell as JSON can hold it."""
    if isinstance(cell, Spread):
        return cell._asdict()
    if isinstance(cell, dict):
        return {name: _plain(one) for name, one in cell.items()}
    return cell
