"""Compares trials in one table and one graph: the best of several experiments, or all of one."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from lab.results import benchmark, graphs, tables
from lab.results.curves import Curve, curve_of
from lab.trials import plan
from lab.trials.folder import Experiment, Trial
from trainer.reporting import wording
from user_error import UserError

DRAWN = 10  # a graph has no more colors: of one experiment, the best
LAST, BEST = "last mean return", "best mean return"
SHOWN = ("experiment", "trial", "seeds", "level", LAST, BEST, "agent steps/s", "policy lag")


def compare(folders: Sequence[str], out: Path, reach: float | None) -> int:
    """Writes OUT.csv and OUT.png, and prints the table in Markdown."""
    rows: list[dict[str, Any]] = []
    groups: dict[str, list[Curve]] = {}
    chosen = _chosen(folders)
    for experiment, trial in chosen:
        name = trial.what or trial.name if len(folders) == 1 else experiment.spec.name
        if name in groups:
            name = trial.name if len(folders) == 1 else experiment.folder.name
        reports = [session.rows() for session in experiment.sessions(trial)]
        groups[name] = [curve_of(one) for one in reports]
        rows.append(
            {
                "experiment": name,
                "trial": trial.name,
                "seeds": len(trial.seeds),
                "level": trial.settings["level_name"],
                **over_seeds(trial.results["sessions"], reports),
                **(reached(groups[name], reach) if reach is not None else {}),
                "settings": trial.what,
                "objective": trial.results["objective"],
                **tables.fitness_columns(trial.results),
                "frames": trial.results["frames"],
                "folder": str(experiment.folder),
            }
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    tables.write(Path(f"{out}.csv"), list(rows[0]), rows)
    _draw(chosen, groups, Path(f"{out}.png"), alone=len(folders) == 1)
    print(tables.markdown([name for name in rows[0] if name in SHOWN or "reached" in name], rows))
    print(f"Written: {out}.csv, {out}.png")
    return 0


def _draw(
    chosen: Sequence[tuple[Experiment, Trial]],
    groups: Mapping[str, Sequence[Curve]],
    path: Path,
    alone: bool,
) -> None:
    experiment = chosen[0][0]
    if alone and experiment.mode == "benchmark":  # returns of levels have sizes of their own
        benchmark.draw(experiment, [trial for _, trial in chosen], path)
        return
    figure = Figure(figsize=(10, 4.6), layout="constrained")
    drawn = list(groups)[: DRAWN if alone else None]
    graphs.draw_spread(figure, {name: groups[name] for name in drawn})
    graphs.save(figure, path)


def _chosen(folders: Sequence[str]) -> list[tuple[Experiment, Trial]]:
    found = []
    for folder in folders:
        experiment = Experiment(Path(folder))
        ranked = plan.ranked(experiment.trials())
        if not ranked:
            raise UserError(f"{folder}: found no trial that came to its end; expected one.")
        found += [(experiment, one) for one in ranked[: None if len(folders) == 1 else 1]]
    return found


def over_seeds(
    sessions: Sequence[Mapping[str, Any]], reports: Sequence[Sequence[Mapping[str, Any]]]
) -> dict[str, str | None]:
    """Returns, speed and policy lag: the mean over sessions, and from the least to the most."""
    last = [rows[-1] for rows in reports if rows]  # which somebody may have removed
    rates = [row["agent_steps"] / row["wall_time"] for row in last if row.get("agent_steps")]
    lags = [[lag for row in rows if (lag := row.get("policy_lag")) is not None] for rows in reports]
    return {
        LAST: spread([one["final_return"] for one in sessions]),
        BEST: spread([one["best_return"] for one in sessions]),
        "agent steps/s": spread(rates),
        "policy lag": spread([float(np.median(those)) for those in lags if those]),
    }


def reached(curves: Sequence[Curve], least: float) -> dict[str, str | None]:
    """The frames and seconds after which each session first had such a mean return."""
    firsts = [np.flatnonzero(one.returns >= least) for one in curves]
    pairs = [(one, first[0]) for one, first in zip(curves, firsts, strict=True) if len(first)]
    missing = len(curves) - len(pairs)
    never = f"; {missing} never" if missing and pairs else ""
    frames = spread([float(one.frames[place]) for one, place in pairs])
    seconds = spread([float(one.seconds[place]) for one, place in pairs])
    return {
        f"{least:g} reached after frames": f"{frames}{never}" if pairs else "never",
        f"{least:g} reached after seconds": f"{seconds}{never}" if pairs else "never",
    }


def spread(values: Sequence[float]) -> str | None:
    """The mean, and from the least to the most where there are several; None without any."""
    if not values:
        return None
    mean, *ends = (
        wording.number(one) for one in (float(np.mean(values)), min(values), max(values))
    )
    return mean if len(values) == 1 else f"{mean} ({ends[0]} – {ends[1]})"
