"""What an evaluation of a model leaves: a table, a picture and TensorBoard's curves."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from trainer.reporting.curve import BLUE, GREY, ORANGE, png
from trainer.storage.records import write_whole
from trainer.trained import grid_report, scoreboard

PICTURE, EVENTS = "evaluation_model_grid.png", "evaluation_model"
NONE = "–"
# figure: its heading and format
COLUMNS = {
    "rollouts_at_12": ("rollouts of 12", "d"),
    "reward_accuracy/at_12": ("reward right", ".1%"),
    "drift/at_12": ("drift", ".2f"),
    "rollouts_at_50": ("of 50", "d"),
    "reward_accuracy/at_50": ("reward right", ".1%"),
    "drift/at_50": ("drift", ".2f"),
    "from_start/rollouts_to_end": ("of episodes", "d"),
    "from_start/reward_accuracy/to_end": ("reward right", ".1%"),
    "from_start/end_accuracy": ("end right", ".1%"),
}
DRAWN = {
    "reward_accuracy/at_12": BLUE,
    "reward_accuracy/at_50": ORANGE,
    "from_start/reward_accuracy/to_end": GREY,
}


def print_figures(shown_on: Console, rows: dict[str, dict[str, Any]]) -> None:
    """A row for each combination of settings, with the figures of ``evaluating.figures``."""
    shown = {
        name: [_text(figures.get(column), form) for column, (_, form) in COLUMNS.items()]
        for name, figures in rows.items()
    }
    scoreboard.print_table(
        shown_on, "played by", [heading for heading, _ in COLUMNS.values()], shown
    )


def _text(value: Any, form: str) -> str:
    return NONE if value is None else format(value, form)


def write(
    folder: Path, updates: int, names: Sequence[str], figures: Sequence[dict[str, Any]]
) -> list[str]:
    """Writes the picture and the events; returns a line about each, also if it failed."""
    picture, events = folder / PICTURE, folder / EVENTS
    return grid_report.written(
        ("Picture", picture, lambda: _draw(picture, names, figures)),
        ("TensorBoard", events, lambda: grid_report.add_events(events, updates, _shown(figures))),
    )


def _shown(figures: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What TensorBoard shows of an evaluation."""
    shown: dict[str, Any] = {}
    for one in figures:
        tag = _tag(one) if len(figures) > 1 else ""
        shown |= {f"{name}{tag}": value for name, value in one.items() if "/" in name}
    return shown


def _tag(figures: dict[str, Any]) -> str:
    """How the names of several combinations differ, as tensor2tensor's evaluator has it."""
    by = "random" if figures["played_by"] == "random" else f"temp_{figures['temperature']:g}"
    further = {k: v for k, v in figures["settings"].items() if k not in grid_report.IN_NAME}
    more = "".join(f"_{name}_{value}" for name, value in further.items())
    return f"_sampling_{by}_max_noops_{figures['noop_max']}{more}"


def _draw(path: Path, names: Sequence[str], figures: Sequence[dict[str, Any]]) -> None:
    """A line for each combination: the shares of rollouts with the right reward."""
    from matplotlib.figure import Figure  # takes a second to import

    drawing = Figure(figsize=(9, 1.6 + 0.34 * len(names)), layout="constrained")
    axes = drawing.subplots()
    for name, colour in DRAWN.items():
        known = [(n, one[name]) for n, one in enumerate(figures) if one.get(name) is not None]
        axes.plot([share for _, share in known], [n for n, _ in known], "o", color=colour)
        axes.plot([], [], "o", color=colour, label=name)
    axes.set_yticks(range(len(names)), list(names), fontsize=8)
    axes.set_xlim(-0.02, 1.02)
    axes.invert_yaxis()
    axes.set_xlabel("share of rollouts whose sum of rewards is right")
    axes.grid(axis="x", alpha=0.3)
    axes.legend(fontsize=8, loc="lower left")
    write_whole(path, png(drawing))
