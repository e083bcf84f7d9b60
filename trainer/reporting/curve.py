"""The picture of a run: raw return over frames and over time."""

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainer.reporting import wording
from trainer.settings.config import Settings
from trainer.storage.records import read_metrics, write_whole

NAME = "learning_curve.png"
# More lines than this have no names: nobody could tell their colors apart.
LEVELS_NAMED = 10
GREY, BLUE = "#8a8f98", "#1f6feb"


def write_curve(folder: Path, settings: Settings) -> Path:
    """Draws ``metrics.jsonl`` of a run's folder; may raise OSError."""
    # Drawing takes a second to import, which a run need not pay before its end.
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.ticker import EngFormatter

    rows = [row for row in read_metrics(folder) if row.get("mean_episode_return") is not None]
    figure = Figure(figsize=(10, 4.2), layout=ConstrainedLayoutEngine(wspace=0.06))
    figure.suptitle(_title(settings), fontsize=12)
    left, right = figure.subplots(1, 2, sharey=True)
    frames = [row["environment_frames"] for row in rows]
    scale, unit = time_unit(rows)
    _draw(left, frames, rows)
    _draw(right, [row["wall_time"] / scale for row in rows], rows)
    left.set_xlabel("environment frames")
    left.set_ylabel("mean raw return")
    right.set_xlabel(f"time ({unit})")
    left.xaxis.set_major_formatter(EngFormatter(sep=""))
    _name_lines(figure, left)
    write_whole(folder / NAME, png(figure))
    return folder / NAME


def png(figure: Any) -> bytes:
    """A figure as a picture in a palette of its own, which takes a third of the room."""
    from PIL import Image

    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    picture = (
        Image.open(buffer)
        .convert("RGB")
        .quantize(256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    )
    small = io.BytesIO()
    picture.save(small, format="png", optimize=True)
    return small.getvalue()


def _title(settings: Settings) -> str:
    levels = ", ".join(settings.level.levels)
    if len(levels) > 70:
        levels = f"{len(settings.level.levels)} levels"
    parts = [levels, settings.agent.agent_name, f"seed {settings.program.seed}"]
    return " · ".join(part for part in parts if part)


def _draw(axes: Any, places: Sequence[float], rows: list[dict[str, Any]]) -> None:
    levels = list(wording.by_level(rows[-1])) if rows else []
    for index, level in enumerate(levels):
        values = [_value(row, f"mean_episode_return/{level}") for row in rows]
        style = _style(level, index, len(levels), values[-1])
        axes.plot(places, values, linewidth=1.2, marker=_marker(rows), markersize=3, **style)
    mean = [row["mean_episode_return"] for row in rows]
    axes.plot(
        places,
        mean,
        color="black" if levels else BLUE,
        linewidth=2,
        label="mean of all levels",
        marker=_marker(rows),
        markersize=4,
    )
    if rows:
        _write_last(axes, places[-1], mean[-1])
    else:
        _say_empty(axes)
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.02, y=0.08)
    axes.set_xlim(left=0)
    axes.locator_params(axis="x", nbins=6)


def _style(level: str, index: int, levels: int, last: float) -> dict[str, Any]:
    if levels <= LEVELS_NAMED:
        return {"label": f"{level} {wording.number(None if math.isnan(last) else last)}"}
    name = {"label": f"each of {levels} levels"} if index == 0 else {}
    return {"color": GREY, "alpha": 0.4, **name}


def _value(row: dict[str, Any], name: str) -> float:
    value = row.get(name)
    return float("nan") if value is None else value


def _marker(rows: list[dict[str, Any]]) -> str:
    """A line of few points is hard to see, one of a single point cannot be seen."""
    return "o" if len(rows) <= 10 else ""


def _write_last(axes: Any, place: float, value: float) -> None:
    axes.annotate(
        wording.number(value),
        (place, value),
        xytext=(6, 0),
        textcoords="offset points",
        va="center",
        fontsize=9,
        fontweight="bold",
    )


def _say_empty(axes: Any) -> None:
    axes.text(
        0.5, 0.5, "no episode has ended yet", transform=axes.transAxes, ha="center", color=GREY
    )


def time_unit(rows: list[dict[str, Any]]) -> tuple[float, str]:
    """Seconds of the unit that suits the longest time in the reports, and its name."""
    longest = max((row["wall_time"] for row in rows), default=0.0)
    if longest >= 3 * 86400:
        return 86400.0, "days"
    if longest >= 2 * 3600:
        return 3600.0, "hours"
    return (60.0, "minutes") if longest >= 180 else (1.0, "seconds")


def _name_lines(figure: Any, axes: Any) -> None:
    handles, labels = axes.get_legend_handles_labels()
    if len(handles) > 1:
        figure.legend(
            handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=8
        )
