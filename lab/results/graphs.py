"""The graphs of an experiment, as PNG: of each session, each trial, and the whole."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from lab.results import curves, tables
from lab.results.curves import Curve
from lab.results.fitness import Level
from lab.trials.folder import DONE, Trial
from trainer.reporting.curve import BLUE, GREY, LEVELS_NAMED, ORANGE, literal, png, time_unit
from trainer.reporting.wording import by_level
from trainer.storage.records import write_whole

# What says how much an algorithm explores; the first that it reports.
EXPLORATION = ("exploration", "entropy")
RETURN = "mean raw return of 100 episodes"
COLORS = "viridis"
UNKNOWN = (0.75, 0.75, 0.75, 1.0)  # the colour of what has no objective
ACROSS = 4  # panels of a benchmark


def write_session(path: Path, rows: Sequence[Mapping[str, Any]], title: str) -> None:
    """Return over frames and over time; loss and exploration; the return of each body."""
    bodies = list(by_level(dict(rows[-1]))) if rows else []
    figure = Figure(figsize=(10, 9.6 if bodies else 6.4), layout="constrained")
    figure.suptitle(literal(title), fontsize=11)
    grid = figure.add_gridspec(3 if bodies else 2, 2)
    left, right, loss, exploration = (
        figure.add_subplot(grid[place // 2, place % 2]) for place in range(4)
    )
    if bodies:
        _bodies(figure.add_subplot(grid[2, :]), rows, bodies)
    scale, unit = time_unit([dict(row) for row in rows])
    _line(left, rows, "environment_frames", "mean_episode_return", BLUE)
    _line(right, rows, "wall_time", "mean_episode_return", BLUE, scale)
    right.set_xlim(left=0)
    _line(loss, rows, "environment_frames", "total_loss", GREY)
    name = next((one for one in EXPLORATION if rows and one in rows[-1]), EXPLORATION[-1])
    _line(exploration, rows, "environment_frames", name, ORANGE)
    left.set_ylabel(RETURN)
    loss.set_ylabel("loss")
    exploration.set_ylabel(name)
    right.set_xlabel(f"time ({unit})")
    for axes in (left, loss, exploration):
        _frames(axes)
    save(figure, path)


def _bodies(axes: Any, rows: Sequence[Mapping[str, Any]], bodies: Sequence[str]) -> None:
    """The return of each body or level, which have no names if there are too many."""
    few = len(bodies) <= LEVELS_NAMED
    for place, name in enumerate(bodies):
        _line(axes, rows, "environment_frames", f"{tables.OF_ONE}{name}",
              f"C{place}" if few else GREY, label=literal(name))  # fmt: skip
    axes.set_ylabel("of each level or body")
    _frames(axes)
    if few:
        axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))


def write_trial(path: Path, sessions: Sequence[Curve], title: str) -> None:
    """Return over frames and over time: a line a session, their mean, and least to most."""
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    figure.suptitle(literal(title), fontsize=11)
    draw_spread(figure, {"": sessions})
    save(figure, path)


def draw_spread(figure: Figure, groups: Mapping[str, Sequence[Curve]]) -> None:
    """Two panels with a mean and a spread for each group of sessions."""
    left, right = figure.subplots(1, 2, sharey=True)
    known = {name: [one for one in those if not one.is_empty] for name, those in groups.items()}
    ends = [{"wall_time": one.seconds[-1]} for those in known.values() for one in those]
    scale, unit = time_unit(ends)
    for place, (name, those) in enumerate(known.items()):
        if those:
            _group(left, those, "frames", 1.0, f"C{place % 10}", literal(name))
            _group(right, those, "seconds", scale, f"C{place % 10}", literal(name))
    _frames(left)
    left.set_ylabel(RETURN)
    right.set_xlabel(f"time ({unit})")
    if any(known) and len(known) > 1:
        handles, labels = left.get_legend_handles_labels()
        figure.legend(
            handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=8
        )
    for axes in (left, right):
        _plain(axes)
        axes.set_xlim(left=0)


def write_experiment(path: Path, trials: Sequence[Trial], title: str) -> None:
    """A row for each part of the fitness, a column for each searched key, a dot for each trial."""
    shown = [one for one in trials if one.state == DONE and one.values]
    keys = list(dict.fromkeys(name for one in shown for name in one.values))
    rows = [tables.fitness_columns(one.results) for one in shown]
    first = ("fitness", *(f"v1_{name}" for name in tables.V1))
    other = tuple(f"v4_{name}" for name in tables.V4)
    measures = first if any(row["fitness"] is not None for row in rows) else other
    if not shown or not keys:
        return
    size = (max(4.0, 2.6 * len(keys) + 1), 1.7 * len(measures) + 0.8)
    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle(literal(title), fontsize=11)
    grid = figure.subplots(len(measures), len(keys), squeeze=False, sharey="row", sharex="col")
    colors = _colors([one.results["objective"] for one in shown])
    for row, measure in enumerate(measures):
        for column, key in enumerate(keys):
            axes = grid[row][column]
            having = [
                (one.values[key], figures[measure], color)
                for one, figures, color in zip(shown, rows, colors, strict=True)
                if key in one.values
            ]
            places = _places(axes, [value for value, _, _ in having])
            known = [
                (x, y, c) for x, (_, y, c) in zip(places, having, strict=True) if y is not None
            ]
            if known:
                xs, ys, shades = zip(*known, strict=True)
                axes.scatter(xs, ys, c=shades, s=26, edgecolors="white", linewidths=0.4)
            _plain(axes)
            if column == 0:
                axes.set_ylabel(
                    measure.removeprefix("v1_").removeprefix("v4_").replace("_", "\n"), fontsize=9
                )
            if row == len(measures) - 1:
                axes.set_xlabel(key, fontsize=9)
    save(figure, path)


def write_benchmark(
    path: Path,
    levels: Mapping[str, Mapping[str, Sequence[Curve]]],
    known: Mapping[str, Level],
    title: str,
) -> None:
    """A panel for each level: the return of each spec's sessions over frames.

    A dotted line is random play, a dashed one what counts as 1, where they lie within the panel.
    """
    across = min(ACROSS, len(levels))
    rows = -(-len(levels) // across)
    figure = Figure(figsize=(max(4.0, 3.2 * across), 2.5 * rows + 0.8), layout="constrained")
    figure.suptitle(literal(title), fontsize=11)
    panels = list(figure.subplots(rows, across, squeeze=False).flat)
    for axes in panels[len(levels) :]:
        axes.set_axis_off()
    for axes, (level, specs) in zip(panels, levels.items(), strict=False):
        for place, (name, sessions) in enumerate(specs.items()):
            those = [one for one in sessions if not one.is_empty]
            if those:
                _group(axes, those, "frames", 1.0, f"C{place % 10}", literal(name))
        _frames(axes)
        _plain(axes)
        axes.set_xlim(left=0)
        axes.set_title(literal(level), fontsize=9)
        if not axes.lines:
            axes.set(xticks=[], yticks=[])
            axes.text(0.5, 0.5, "no episode has ended yet", transform=axes.transAxes, ha="center",
                      color=GREY)  # fmt: skip
        elif level in known:
            axes.autoscale(False)
            axes.axhline(known[level].random_return, color=GREY, linestyle=":", linewidth=1)
            if known[level].solved_return is not None:
                axes.axhline(known[level].solved_return, color=GREY, linestyle="--", linewidth=1)
    figure.supylabel(RETURN, fontsize=9)
    found = [axes.get_legend_handles_labels() for axes in panels]
    named = {name: line for pair in found for line, name in zip(*pair, strict=True)}
    if len(named) > 1:
        figure.legend(
            list(named.values()), list(named), loc="outside lower center", ncols=3, frameon=False,
            fontsize=8,
        )  # fmt: skip
    save(figure, path)


def save(figure: Figure, path: Path) -> None:
    """Writes a figure as a small PNG, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, png(figure))


def _line(
    axes: Any,
    rows: Sequence[Mapping[str, Any]],
    x: str,
    y: str,
    color: str,
    scale: float = 1.0,
    label: str = "",
) -> None:
    points = [(row[x] / scale, row[y]) for row in rows if row.get(y) is not None]
    if points:
        marker = "o" if len(points) <= 10 else ""
        axes.plot(
            *zip(*points, strict=True), color=color, linewidth=1.4, marker=marker, markersize=3,
            label=label,
        )  # fmt: skip
    else:
        axes.text(0.5, 0.5, "not reported", transform=axes.transAxes, ha="center", color=GREY)
    _plain(axes)


def _group(
    axes: Any, those: Sequence[Curve], over: str, scale: float, color: str, name: str
) -> None:
    for one in those:
        alone = len(those) == 1
        style = {"linewidth": 1.6, "label": name} if alone else {"linewidth": 0.7, "alpha": 0.35}
        axes.plot(getattr(one, over) / scale, one.returns, color=color, **style)
    if len(those) > 1:
        grid, low, mean, high = curves.spread(those, over)
        axes.fill_between(grid / scale, low, high, color=color, alpha=0.15, linewidth=0)
        axes.plot(grid / scale, mean, color=color, linewidth=1.8, label=name)


def _frames(axes: Any) -> None:
    axes.set_xlabel("environment frames")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))


def _plain(axes: Any) -> None:
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    axes.margins(x=0.06, y=0.1)


def _places(axes: Any, values: Sequence[Any]) -> list[float]:
    """Where values lie on a panel's axis: numbers by size, all others side by side."""
    numbers = [one for one in values if isinstance(one, (int, float)) and not isinstance(one, bool)]
    if len(numbers) == len(values):
        low, high = min(numbers), max(numbers)
        if low > 0 and high / low >= 20:
            axes.set_xscale("log")
        else:
            axes.xaxis.set_major_locator(MaxNLocator(4))
        return [float(one) for one in values]
    names = sorted({str(one) for one in values})
    axes.set_xticks(range(len(names)), [literal(name) for name in names], fontsize=8)
    return [float(names.index(str(one))) for one in values]


def _colors(objectives: Sequence[float | None]) -> list[Any]:
    """From dark to bright by the objective; grey without one."""
    known = [one for one in objectives if one is not None]
    low = min(known, default=0.0)
    width = max(known, default=0.0) - low or 1.0
    return [
        UNKNOWN if one is None else colormaps[COLORS](0.9 * (one - low) / width)
        for one in objectives
    ]
