"""The picture of a run: raw return and length of episodes, over frames and over time."""

import io
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trainer.reporting import wording
from trainer.storage.records import of_level, read_metrics, write_whole

NAME = "learning_curve.png"
# With more levels, lines have no names: their colors would be too similar to tell apart.
LEVELS_NAMED = 10
GREY, BLUE, ORANGE, GREEN = "#8a8f98", "#1f6feb", "#d9730d", "#1a7f37"
HEIGHT, HEIGHT_OF_LENGTHS = 4.2, 1.4  # inches


def write_curve(folder: Path, title: str, since: int = 0) -> Path:
    """Draws the ``metrics.jsonl`` of a run's folder; may raise OSError.

    ``since`` are the frames at which it began to play its level, if it has played another before.
    """
    reported = of_level(read_metrics(folder), since)

    def draw(axes: Any, xs: Callable[[dict[str, Any]], float]) -> None:
        _draw(axes, xs, reported)

    return _write(folder, title, draw, {GREEN: reported})


def write_curves(
    folder: Path, title: str, runs: Mapping[str, Path], since: Mapping[str, int]
) -> Path:
    """Draws the runs of several agents into ``folder``, each in a colour; may raise OSError.

    The return of each body of an agent is a thin line where it has several. ``since`` is as above,
    for each agent.
    """
    of_agents = {
        name: _having("mean_episode_return", of_level(read_metrics(own), since[name]))
        for name, own in runs.items()
    }
    colors = [f"C{index}" for index in range(len(runs))]  # of which ten are different

    def draw(axes: Any, xs: Callable[[dict[str, Any]], float]) -> None:
        for (name, rows), color in zip(of_agents.items(), colors, strict=True):
            _draw_agent(axes, [xs(row) for row in rows], rows, name, color)
        if not any(of_agents.values()):
            _write_empty(axes)
        _tidy(axes)

    return _write(folder, title, draw, dict(zip(colors, of_agents.values(), strict=True)))


def _having(name: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those in which a figure is known."""
    return [row for row in rows if row.get(name) is not None]


def _write(
    folder: Path,
    title: str,
    draw: Callable[[Any, Callable[[dict[str, Any]], float]], None],
    reports: Mapping[str, list[dict[str, Any]]],
) -> Path:
    """A picture of what ``draw`` draws over frames, and over the time that the reports took.

    Below that are the lengths of episodes; ``reports`` are all, by the colour of their lengths.
    """
    # Matplotlib takes a second to import, so a run imports it only at its end.
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.ticker import EngFormatter

    lengths = {color: _having("mean_episode_length", rows) for color, rows in reports.items()}
    heights = [HEIGHT, HEIGHT_OF_LENGTHS] if any(lengths.values()) else [HEIGHT]
    figure = Figure(figsize=(10, sum(heights)), layout=ConstrainedLayoutEngine(wspace=0.06))
    figure.suptitle(literal(title), fontsize=12)
    panels = figure.subplots(
        len(heights), 2, sharex="col", sharey="row", squeeze=False, height_ratios=heights
    )
    scale, unit = time_unit([row for rows in reports.values() for row in rows])
    over = (lambda row: row["environment_frames"], lambda row: row["wall_time"] / scale)
    for axes, xs in zip(panels[0], over, strict=True):
        draw(axes, xs)
    for below in panels[1:]:
        below[0].set_ylabel("mean length")
        for axes, xs in zip(below, over, strict=True):
            _draw_lengths(axes, xs, lengths)
    (left, right), (first, *_) = panels[-1], panels[0]
    left.set_xlabel("environment frames")
    first.set_ylabel("mean raw return")
    right.set_xlabel(f"time ({unit})")
    left.xaxis.set_major_formatter(EngFormatter(sep=""))
    _add_legend(figure, first)
    write_whole(folder / NAME, png(figure))
    return folder / NAME


def _draw_lengths(
    axes: Any,
    x: Callable[[dict[str, Any]], float],
    lengths: Mapping[str, list[dict[str, Any]]],
) -> None:
    for color, rows in lengths.items():
        values = [row["mean_episode_length"] for row in rows]
        xs = [x(row) for row in rows]
        axes.plot(xs, values, color=color, linewidth=1.2, marker=_marker(rows), markersize=3)
    _tidy(axes)


def _draw_agent(
    axes: Any, xs: Sequence[float], rows: list[dict[str, Any]], name: str, color: str
) -> None:
    if not rows:
        return
    bodies = list(wording.by_level(rows[-1]))
    for body in bodies if len(bodies) <= LEVELS_NAMED else []:
        values = [_value(row, f"mean_episode_return/{body}") for row in rows]
        label = literal(f"{name}, {body} {wording.number(_known(values[-1]))}")
        axes.plot(xs, values, color=color, linewidth=0.9, alpha=0.6, linestyle="--", label=label)
    mean = [row["mean_episode_return"] for row in rows]
    axes.plot(
        xs, mean, color=color, linewidth=2, label=literal(name), marker=_marker(rows), markersize=4
    )
    _write_last(axes, xs[-1], mean[-1])


def png(figure: Any) -> bytes:
    """A figure as a PNG with a palette of its own, a third of the usual size."""
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


def literal(text: str) -> str:
    """Text for a picture as it is: what stands between two dollars would be a formula.

    A label that begins with an underscore would be in no legend.
    """
    return f"{' ' * text.startswith('_')}{text}".replace("$", r"\$")


def title(levels: Sequence[str], agent_name: str, seed: int) -> str:
    """The title of a run's picture, in one line."""
    named = ", ".join(levels)
    if len(named) > 70:
        named = f"{len(levels)} levels"
    return " · ".join(part for part in (named, agent_name, f"seed {seed}") if part)


def _draw(axes: Any, x: Callable[[dict[str, Any]], float], reported: list[dict[str, Any]]) -> None:
    rows = _having("mean_episode_return", reported)
    xs = [x(row) for row in rows]
    levels = list(wording.by_level(rows[-1])) if rows else []
    for index, level in enumerate(levels):
        values = [_value(row, f"mean_episode_return/{level}") for row in rows]
        style = _style(level, index, len(levels), values[-1])
        axes.plot(xs, values, linewidth=1.2, marker=_marker(rows), markersize=3, **style)
    mean = [row["mean_episode_return"] for row in rows]
    axes.plot(
        xs,
        mean,
        color="black" if levels else BLUE,
        linewidth=2,
        label="mean of all" if levels else "training",
        marker=_marker(rows),
        markersize=4,
    )
    _draw_evaluations(axes, [x(row) for row in reported], reported)
    if rows:
        _write_last(axes, xs[-1], mean[-1])
    elif not _having("evaluation_return", reported):
        _write_empty(axes)
    _tidy(axes)


def _tidy(axes: Any) -> None:
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.02, y=0.08)
    axes.set_xlim(left=0)
    axes.locator_params(axis="x", nbins=6)


def _draw_evaluations(axes: Any, xs: Sequence[float], rows: list[dict[str, Any]]) -> None:
    """The means of whole games beside the training, where it had the weights that played them."""
    those = _having("evaluation_return", rows)
    if those:
        # A report has the games that ended since the last one; they may have begun long before.
        frames = [row.get("evaluation_frames", row["environment_frames"]) for row in those]
        reported = [row["environment_frames"] for row in rows]
        places = np.interp(frames, [0, *reported], [0, *xs])
        axes.plot(places, [row["evaluation_return"] for row in those], color=ORANGE, marker="o",
                  markersize=4, linewidth=1.2, label="evaluations")  # fmt: skip


def _style(level: str, index: int, levels: int, last: float) -> dict[str, Any]:
    if levels <= LEVELS_NAMED:
        return {"label": f"{literal(level)} {wording.number(_known(last))}"}
    name = {"label": f"each of {levels} levels"} if index == 0 else {}
    return {"color": GREY, "alpha": 0.4, **name}


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _value(row: dict[str, Any], name: str) -> float:
    value = row.get(name)
    return float("nan") if value is None else value


def _marker(rows: list[dict[str, Any]]) -> str:
    """Markers for lines of few points: they are hard to see, and a single point has no line."""
    return "o" if len(rows) <= 10 else ""


def _write_last(axes: Any, x: float, value: float) -> None:
    axes.annotate(
        wording.number(value),
        (x, value),
        xytext=(6, 0),
        textcoords="offset points",
        va="center",
        fontsize=9,
        fontweight="bold",
    )


def _write_empty(axes: Any) -> None:
    axes.text(
        0.5, 0.5, "no episode has ended yet", transform=axes.transAxes, ha="center", color=GREY
    )


def time_unit(rows: list[dict[str, Any]]) -> tuple[float, str]:
    """The unit that suits the longest time in the reports: its seconds, and its name."""
    longest = max((row["wall_time"] for row in rows), default=0.0)
    if longest >= 3 * 86400:
        return 86400.0, "days"
    if longest >= 2 * 3600:
        return 3600.0, "hours"
    return (60.0, "minutes") if longest >= 180 else (1.0, "seconds")


def _add_legend(figure: Any, axes: Any) -> None:
    handles, labels = axes.get_legend_handles_labels()
    if len(handles) > 1:
        figure.legend(
            handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=8
        )
