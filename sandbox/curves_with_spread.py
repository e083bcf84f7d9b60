"""The picture and the table of a study: each variant's mean over its seeds, and their spread."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sandbox.training_runs import Curve
from trainer.reporting import curve, wording
from trainer.storage.records import write_whole

GRID = 200
RETURN = "mean_episode_return"


def draw(path: Path, curves: Sequence[Curve], title: str) -> None:
    """Raw return over frames and over time: a line a seed, the mean, and from least to most."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.ticker import EngFormatter

    figure = Figure(figsize=(10, 4.6), layout=ConstrainedLayoutEngine(wspace=0.06))
    figure.suptitle(title, fontsize=12)
    left, right = figure.subplots(1, 2, sharey=True)
    scale, unit = curve.time_unit([row for one in curves for row in one.rows])
    by_variant = {
        variant: [one for one in curves if one.variant == variant] for variant in variants(curves)
    }
    # Said once where it holds for all: several such lines would not fit beside one another.
    seeds = {_seeds(those) for those in by_variant.values()}
    common = seeds.pop() if len(seeds) == 1 and len(by_variant) > 1 else None
    for index, (variant, those) in enumerate(by_variant.items()):
        label = " · ".join(filter(None, (variant, None if common else _seeds(those))))
        _draw_variant(left, those, "environment_frames", 1.0, f"C{index}", label)
        _draw_variant(right, those, "wall_time", scale, f"C{index}", None)
    left.set_xlabel("environment frames")
    left.set_ylabel("mean raw return of the last 100 episodes")
    right.set_xlabel(f"time ({unit})")
    left.xaxis.set_major_formatter(EngFormatter(sep=""))
    for axes in (left, right):
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlim(left=0)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(
        handles, labels, title=common, loc="outside lower center", ncols=2, frameon=False,
        fontsize=9, title_fontsize=9,
    )  # fmt: skip
    write_whole(path, curve.png(figure))


def _draw_variant(
    axes: Any, curves: list[Curve], over: str, scale: float, color: str, label: str | None
) -> None:
    for one in curves:
        places = np.array(one.values(over)) / scale
        marker = "o" if len(places) == 1 else ""
        alpha = 0.3 if len(curves) > 1 else 1.0
        axes.plot(
            places, one.values(RETURN), color=color, linewidth=0.8, alpha=alpha, marker=marker
        )
    grid, low, mean, high = spread(curves, over)
    axes.fill_between(grid / scale, low, high, color=color, alpha=0.15, linewidth=0)
    axes.plot(grid / scale, mean, color=color, linewidth=2, label=label)


def spread(
    curves: Sequence[Curve], over: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Places where all seeds have a return, and there the least, the mean and the most of them."""
    places = [np.array(one.values(over), float) for one in curves]
    grid = np.linspace(max(one[0] for one in places), min(one[-1] for one in places), GRID)
    returns = np.array(
        [
            np.interp(grid, one, each.values(RETURN))
            for one, each in zip(places, curves, strict=True)
        ]
    )
    return grid, returns.min(0), returns.mean(0), returns.max(0)


def variants(curves: Sequence[Curve]) -> list[str]:
    """The variants of a study, in order."""
    return list(dict.fromkeys(one.variant for one in curves))


def table(curves: Sequence[Curve], reach: float | None) -> str:
    """A row a variant in Markdown: mean (least – most) over its seeds."""
    heads = ["variant", "seeds", "last mean return", "best mean return", "agent steps/s", "lag"]
    if reach is not None:
        heads += [f"frames to {reach:g}", f"time to {reach:g}"]
    lines = [f"| {' | '.join(heads)} |", f"| {' | '.join(['---'] * len(heads))} |"]
    for variant in variants(curves):
        those = [one for one in curves if one.variant == variant]
        cells = [variant or "–", str(len(those)), *_figures(those)]
        if reach is not None:
            cells += _reached(those, reach)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _figures(curves: list[Curve]) -> list[str]:
    last = [one.rows[-1] for one in curves]
    rates = [row["agent_steps"] / row["wall_time"] for row in last]
    lags = [
        float(np.median([lag for lag in one.values("policy_lag") if lag is not None] or [0.0]))
        for one in curves
    ]
    return [
        over_seeds([row[RETURN] for row in last]),
        over_seeds([max(one.values(RETURN)) for one in curves]),
        over_seeds(rates),
        over_seeds(lags),
    ]


def _reached(curves: list[Curve], reach: float) -> list[str]:
    """Frames and time at which each seed first had that mean return."""
    firsts = [next((row for row in one.rows if row[RETURN] >= reach), None) for one in curves]
    there = [row for row in firsts if row is not None]
    missed = f"; {len(firsts) - len(there)} never" if len(there) < len(firsts) else ""
    if not there:
        return ["never", "never"]
    minutes = [row["wall_time"] / 60 for row in there]
    frames = over_seeds([row["environment_frames"] / 1e6 for row in there])
    return [f"{frames} M{missed}", f"{over_seeds(minutes)} min{missed}"]


def over_seeds(values: Sequence[float]) -> str:
    """The mean, and from the least to the most where there are several."""
    mean = wording.number(float(np.mean(values)))
    if len(values) == 1:
        return mean
    return f"{mean} ({wording.number(min(values))} – {wording.number(max(values))})"


def _seeds(curves: list[Curve]) -> str:
    if len(curves) == 1:
        return f"seed {curves[0].seed}"
    return f"mean of {len(curves)} seeds, and from least to most"
