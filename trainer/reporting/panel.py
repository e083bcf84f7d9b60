"""What a terminal shows of a running training: one panel, redrawn in place."""

import time
from collections.abc import Sequence
from typing import Any

import rich.box
import rich.panel
from rich.console import Console, ConsoleOptions, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from algorithms.figures import WORLD, Figure
from trainer.reporting import wording
from trainer.reporting.wording import count, duration, number, percent

BARS = "▁▂▃▄▅▆▇█"
SPARKS = 24
# Further levels are only counted: a panel higher than the terminal would be cut off.
LEVELS_SHOWN = 8
BRIEF = ("speed", "mean raw return", "", "episodes", "waiting", "learning")
# A history of this length is halved, so that a run of weeks costs no more than one of hours.
HISTORY = 1024


class Panel:
    """The last report as a panel; ``rich`` renders it for whatever width the terminal has."""

    def __init__(
        self,
        folder: str,
        total_frames: int,
        reported: Sequence[Figure],
        about: dict[str, str],
        brief: bool = False,
    ):
        """``reported`` are the figures of the algorithm and of the level.

        A ``brief`` panel has only the rows that tell agents apart: there is one for each of them.
        """
        self.note = ""
        self._brief = brief
        self._total = total_frames
        self._title = " · ".join(about[key] for key in ("name", "level", "agent") if key in about)
        self._folder = folder
        self._reported = reported
        self._figures: dict[str, Any] = {}
        self._evaluated: dict[str, Any] = {}  # the last report with an evaluation
        self._since = time.monotonic()
        self._history: dict[str, list[float]] = {}

    def update(self, figures: dict[str, Any]) -> None:
        """Takes a report; reports from before a resume may come first."""
        self._figures = figures
        if figures.get("evaluation_return") is not None:
            self._evaluated = figures
        self._since = time.monotonic()
        returns = {"": figures.get("mean_episode_return"), **wording.by_level(figures)}
        for level, value in returns.items():
            if value is not None:
                history = self._history.setdefault(level, [])
                history.append(value)
                if len(history) > HISTORY:
                    del history[1::2]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = max(20, options.max_width - 22)
        table = Table.grid(padding=(0, 2), expand=True)
        table.add_column(style="dim", no_wrap=True)
        table.add_column(ratio=1, overflow="fold")
        table.add_row("frames", self._frames(width))
        for name, parts in self._rows().items():
            table.add_row(name, flow(parts, width))
        if self.note:
            table.add_row("latest", Text(self.note, overflow="ellipsis", no_wrap=True))
        yield rich.panel.Panel(
            table,
            title=Text(self._title, style="bold", overflow="ellipsis"),
            subtitle=Text(self._folder, style="dim", overflow="ellipsis"),
            box=rich.box.ROUNDED,
            border_style="cyan",
        )

    def _frames(self, width: int) -> Table:
        frames = self._figures.get("environment_frames", 0)
        done = frames / self._total
        text = f"{count(frames)} of {count(self._total)}  {wording.progress(done)}"
        grid = Table.grid(padding=(0, 2))
        bar = ProgressBar(total=1.0, completed=min(1.0, done), width=max(4, width - len(text) - 2))
        grid.add_row(Text(text, no_wrap=True), bar)
        return grid

    def _rows(self) -> dict[str, list[Text]]:
        figures = self._figures
        passed = time.monotonic() - self._since
        left = figures.get("time_left")
        rows = {
            "speed": [
                _part("", count(figures.get("frames_per_second")), "frames/s"),
                _part("", count(figures.get("steps_per_second")), "agent steps/s"),
            ],
            "time": [
                _part("", duration(figures.get("wall_time", 0.0) + passed)),
                _part("time left", duration(None if left is None else max(0.0, left - passed))),
            ],
            "mean raw return": [self._return("", figures.get("mean_episode_return"))],
            "": self._levels(),
            "evaluated": self._evaluation(),
            "episodes": [
                _part("", count(figures.get("episodes"))),
                _part("mean length", count(figures.get("mean_episode_length")), "agent steps"),
            ],
            "waiting": [
                _part("learner waits", percent(figures.get("learner_wait_share"))),
                _part("actors wait", percent(figures.get("actor_wait_share"))),
                *self._others(),
                _part("cores busy", percent(figures.get("cores_busy_share"))),
            ],
            "limited by": [_part("", wording.limited_by(figures))],
            "learners": [_part(*part) for part in wording.among_learners(figures)],
            "losses": [
                _part("total", number(figures.get("total_loss"))),
                *self._of_algorithm("losses"),
            ],
            "learning": self._learning(),
            "world": self._of_algorithm(WORLD),
        }
        shown = BRIEF if self._brief else rows
        return {name: rows[name] for name in shown if rows[name]}

    def _evaluation(self) -> list[Text]:
        last = self._evaluated
        if not last:
            return []
        frames = f"at {count(last.get('evaluation_frames'))} frames"
        return [_part("", number(last["evaluation_return"]), frames)]

    def _others(self) -> list[Text]:
        waits = self._figures.get("team_wait_share")
        return [] if waits is None else [_part("waits for other learners", percent(waits))]

    def _learning(self) -> list[Text]:
        figures = self._figures
        parts = [
            _part("policy lag", number(figures.get("policy_lag"))),
            *self._of_algorithm("learning"),
            _part("gradient norm", number(figures.get("gradient_norm"))),
            _part("learning rate", number(figures.get("learning_rate"))),
        ]
        if figures.get("skipped_updates"):
            skipped = _part("skipped updates", count(figures["skipped_updates"]))
            skipped.stylize("bold red")
            parts.append(skipped)
        return parts

    def _of_algorithm(self, row: str) -> list[Text]:
        return [
            _part(one.label, number(self._figures.get(one.name)))
            for one in self._reported
            if one.row == row
        ]

    def _return(self, level: str, value: float | None) -> Text:
        text = _part(level, number(value))
        text.append("  " + sparkline(self._history.get(level, []), SPARKS), style="green")
        return text

    def _levels(self) -> list[Text]:
        levels = wording.by_level(self._figures)
        shown = [self._return(*item) for item in list(levels.items())[:LEVELS_SHOWN]]
        rest = len(levels) - LEVELS_SHOWN
        return [*shown, Text(f"and {rest} more levels", style="dim")] if rest > 0 else shown


def sparkline(values: list[float], width: int) -> str:
    """The values as one line of at most ``width`` bars, the newest on the right."""
    if not values:
        return ""
    width = min(width, len(values))
    edges = [round(i * len(values) / width) for i in range(width + 1)]
    means = [
        sum(values[low:high]) / (high - low) for low, high in zip(edges, edges[1:], strict=False)
    ]
    low, high = min(means), max(means)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(BARS[round((mean - low) * scale)] for mean in means)


def flow(parts: list[Text], width: int) -> Text:
    """Parts side by side, as many in a line as fit; no part is split."""
    lines: list[Text] = []
    for part in parts:
        if lines and lines[-1].cell_len + 3 + part.cell_len <= width:
            lines[-1].append(" · ", style="dim").append_text(part)
        else:
            lines.append(part.copy())
    return Text("\n").join(lines)


def _part(name: str, value: str, unit: str = "") -> Text:
    text = Text(f"{name} " if name else "", style="")
    text.append(value, style="bold")
    return text.append(f" {unit}" if unit else "")
