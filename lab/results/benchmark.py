"""What a benchmark comes to: normalised scores, medians, interquartile means.

A score is 0 for random play and 1 for a solved level (for Atari, a human). Intervals are
bootstrapped: seeds are drawn anew for each level. They hold for the levels that were run.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lab.results import fitness, graphs, scoring, tables
from lab.results.curves import Curve, drawn_of
from lab.trials.folder import DONE, Experiment, Trial
from trainer.reporting import wording
from trainer.storage.records import write_whole

DRAWS = 2000
SEED = 1
BOUNDS = (2.5, 97.5)


def interquartile_mean(scores: np.ndarray) -> float:
    """The mean of the middle half of all scores; those at its edges count in part.

    With 5 scores the middle 2.5 count: the third whole, and three quarters of the two beside it.
    """
    values = np.sort(np.asarray(scores, float).ravel())
    edges = np.arange(len(values) + 1)
    low, high = len(values) / 4, 3 * len(values) / 4
    weights = np.clip(np.minimum(edges[1:], high) - np.maximum(edges[:-1], low), 0, None)
    return float((weights * values).sum() / weights.sum())


def interval(
    levels: Sequence[np.ndarray], of: Callable[[list[np.ndarray]], float]
) -> tuple[float, float]:
    """The middle 95% of a figure when the seeds of each level are drawn anew."""
    random = np.random.default_rng(SEED)
    drawn = [
        of([scores[random.integers(len(scores), size=len(scores))] for scores in levels])
        for _ in range(DRAWS)
    ]
    low, high = np.percentile(drawn, BOUNDS)
    return float(low), float(high)


def score(session: Mapping[str, Any], random_return: float, scale: float) -> float:
    """The normalised score of one session; the scale leads from random play to a solved level."""
    return (session["final_return"] - random_return) / scale


def rows(experiment: Experiment, trials: Sequence[Trial]) -> list[dict[str, Any]]:
    """A row for each spec: a score for each level, and what they come to."""
    random = scoring.random_play(experiment)
    found = []
    for name in experiment.spec.frozen["specs"]:
        scores: dict[str, np.ndarray] = {}
        row: dict[str, Any] = {"spec": name}
        for trial in [one for one in trials if one.values.get("spec") == name]:
            level = trial.values["level"]
            row[level] = row[f"{level} return"] = None
            returns = [one.get("final_return") for one in trial.results.get("sessions", [])]
            if trial.state != DONE or None in returns or not returns:
                continue
            known = scoring.level_of(experiment, trial, random)
            row[f"{level} return"] = float(np.mean(returns))
            if known.scale is not None:
                each = [
                    score(one, known.random_return, known.scale)
                    for one in trial.results["sessions"]
                ]
                scores[level] = np.array(each)
                row[level] = float(np.mean(each))
        row |= {"scored": len(scores), "levels": len(experiment.spec.frozen["levels"])}
        row |= summary(list(scores.values()))
        found.append(row)
    return found


def summary(levels: Sequence[np.ndarray]) -> dict[str, Any]:
    """Median and interquartile mean over levels and seeds, each with its interval.

    Without a second seed of each level nothing is known of how much seeds differ.
    """
    if not levels:
        return dict.fromkeys(("median", "median_low", "median_high", "iqm", "iqm_low", "iqm_high"))

    def median(each: Sequence[np.ndarray]) -> float:
        return float(np.median([scores.mean() for scores in each]))

    def iqm(each: Sequence[np.ndarray]) -> float:
        return interquartile_mean(np.concatenate(list(each)))

    found: dict[str, Any] = {}
    several = all(len(scores) > 1 for scores in levels)
    for name, of in (("median", median), ("iqm", iqm)):
        low, high = interval(levels, of) if several else (None, None)
        found |= {name: of(levels), f"{name}_low": low, f"{name}_high": high}
    return found


def write(experiment: Experiment, trials: Sequence[Trial]) -> list[dict[str, str]]:
    """Writes the table as CSV and as Markdown; returns it as people read it."""
    made = rows(experiment, trials)
    tables.write(experiment.file("benchmark_df.csv"), list(made[0]), made)
    levels = experiment.spec.frozen["levels"]
    shown = [
        {
            "spec": row["spec"],
            **{level: cell(row.get(level), row.get(f"{level} return")) for level in levels},
            "median": with_interval(row, "median"),
            "interquartile mean": with_interval(row, "iqm"),
        }
        for row in made
    ]
    text = tables.markdown(list(shown[0]), shown)
    write_whole(experiment.file("benchmark.md"), text.encode() + b"\n")
    return shown


def draw(experiment: Experiment, trials: Sequence[Trial], path: Path) -> None:
    """Writes the curves of all specs so far, a panel for each level."""
    levels: dict[str, dict[str, list[Curve]]] = {
        name: {} for name in experiment.spec.frozen["levels"]
    }
    known: dict[str, fitness.Level] = {}
    random = scoring.random_play(experiment)
    for trial in trials:
        level = trial.values["level"]
        curves = [drawn_of(session).curve for session in experiment.sessions(trial)]
        levels[level][trial.values["spec"]] = curves
        if level not in known and random.knows(trial.settings):
            known[level] = scoring.level_of(experiment, trial, random)
    graphs.write_benchmark(path, levels, known, experiment.spec.name)


def cell(normalised: float | None, mean: float | None) -> str:
    """A level's score, and the mean return behind it."""
    if mean is None:
        return "–"
    text = wording.number(mean)
    return text if normalised is None else f"{normalised:.2f} ({text})"


def with_interval(row: Mapping[str, Any], name: str) -> str:
    """A figure with its interval, and of how many levels it is where some have no score."""
    if row[name] is None:
        return "–"
    text, low, high = f"{row[name]:.2f}", row[f"{name}_low"], row[f"{name}_high"]
    if low is not None:
        text += f" ({low:.2f} – {high:.2f})"
    scored, levels = row["scored"], row["levels"]
    return text if scored == levels else f"{text}, {scored} of {levels} levels"
