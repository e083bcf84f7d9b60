"""The page of an experiment: one file with table, curves and parallel coordinates, no network."""

import json
import time
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from lab.results import tables
from lab.results.curves import Curve, curve_of, drawn_of, thinned
from lab.trials import plan
from lab.trials.folder import Experiment, Trial
from lab.trials.sessions import Session
from trainer.storage.records import write_whole

NAME = "index.html"
POINTS = 60  # of a session's curve
PLACE = "/*DATA*/"


def write(
    experiment: Experiment,
    trials: Sequence[Trial],
    result: Mapping[str, Any],
    scores: Sequence[Mapping[str, str]] = (),
) -> None:
    """Writes the page.

    ``result`` is what came out, if it has finished; ``scores`` is the table of a benchmark.
    """
    template = (resources.files("lab.results") / "page.html").read_text("utf-8")
    # Inside a script, "</" would end it.
    data = json.dumps(content(experiment, trials, result, scores), allow_nan=False)
    data = data.replace("</", "<\\/")
    title = experiment.spec.name.replace("<", "&lt;")
    page = template.replace("TITLE", title, 1).replace(PLACE, data, 1)
    write_whole(experiment.folder / NAME, page.encode())


def content(
    experiment: Experiment,
    trials: Sequence[Trial],
    result: Mapping[str, Any],
    scores: Sequence[Mapping[str, str]],
) -> dict[str, Any]:
    """What the page shows, as JSON."""
    rows = {row["trial"]: row for row in tables.experiment_rows(trials)}
    searched = list(dict.fromkeys(name for one in trials for name in one.values))
    objective = next((one.results["objective_name"] for one in trials if one.results), "objective")
    spec = experiment.spec
    return {
        "name": spec.name,
        "description": spec.description,
        "level": ", ".join(spec.frozen.get("levels") or spec.levels),
        "written": time.strftime("%Y-%m-%d %H:%M:%S"),
        "frozen": {name: one for name, one in spec.frozen.items() if name != "specs"},
        "spec": spec.frozen.get("specs") or {spec.name: spec.content()},
        "result": result,
        "objective": objective,
        "searched": searched,
        "scores": list(scores),
        "expected": plan.expected(experiment, list(trials)),
        "trials": [
            {
                **rows[one.number],
                "what": one.what,
                "values": one.values,
                **_curves(experiment.sessions(one)),
            }
            for one in trials
        ],
    }


def _curves(sessions: Sequence[Session]) -> dict[str, Any]:
    """The curve of each session, and in each that of a body or level that has its own returns."""
    drawn = [drawn_of(one) for one in sessions]
    names = dict.fromkeys(name for one in drawn for name in one.bodies)
    none = curve_of([])
    return {
        "curves": [_points(one.curve) for one in drawn],
        "bodies": {name: [_points(one.bodies.get(name, none)) for one in drawn] for name in names},
    }


def _points(curve: Curve) -> list[list[float]]:
    """Frames, seconds and returns of some of the reports, the last among them."""
    some = thinned(curve, POINTS)
    return [[_short(one) for one in array] for array in (some.frames, some.seconds, some.returns)]


def _short(value: float) -> float:
    return float(f"{value:.5g}")
