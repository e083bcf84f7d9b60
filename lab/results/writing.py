"""Writes what comes out of an experiment: tables, graphs, TensorBoard's HParams, the page."""

import dataclasses
import json
import time
from collections.abc import Mapping
from typing import Any

from lab.results import benchmark, graphs, hparams, page, tables
from lab.results.curves import curve_of
from lab.trials.folder import OPEN, Experiment, Trial
from trainer.storage.records import write_whole

# The graph and the page of all trials take seconds; while trials come, they are drawn this often.
DRAWN_EVERY_S = 30.0
GRAPH = "experiment_graph.png"
LAST = "trial_fitness_df.csv"  # is written last of a trial


def is_written(experiment: Experiment, trial: Trial) -> bool:
    """Whether a trial's tables and graphs are there."""
    return experiment.trial_file(trial, LAST).exists()


def forget(experiment: Experiment, trial: Trial) -> None:
    """Lets a trial that runs again have its results written anew."""
    experiment.trial_file(trial, LAST).unlink(missing_ok=True)


def write(experiment: Experiment, trial: Trial) -> bool:
    """Writes all of a trial that has ended, and of the experiment what is due.

    Returns whether graph and page are still to be drawn.
    """
    write_trial(experiment, trial)
    draw = is_due(experiment)
    write_experiment(experiment, draw)
    return not draw


def is_due(experiment: Experiment) -> bool:
    """Whether it is time to draw the graph and the page of all trials."""
    path = experiment.folder / page.NAME
    drawn = path.stat().st_mtime if path.exists() else 0.0
    return time.time() - drawn > DRAWN_EVERY_S


def write_all(experiment: Experiment) -> None:
    """Writes everything anew."""
    for trial in experiment.trials():
        if trial.state != OPEN:
            write_trial(experiment, trial)
    write_experiment(experiment)


def write_trial(experiment: Experiment, trial: Trial) -> None:
    """The tables and graphs of a trial and its sessions."""
    title = " · ".join(part for part in (experiment.spec.name, trial.name, trial.what) if part)
    sessions = experiment.sessions(trial)
    reports = [session.rows() for session in sessions]
    for place, (session, rows) in enumerate(zip(sessions, reports, strict=True)):
        if not rows:
            continue
        table = experiment.trial_file(trial, "session_df.csv", place)
        tables.write_session(table, rows, session.settings.level.levels)
        picture = experiment.trial_file(trial, "session_graph.png", place)
        graphs.write_session(picture, rows, f"{title} · seed {session.seed}")
        hparams.write(experiment, trial, session)
    _write_spec(experiment, trial)
    curves = [curve_of(rows) for rows in reports]
    graphs.write_trial(experiment.trial_file(trial, "trial_graph.png"), curves, title)
    tables.write_fitness(experiment.trial_file(trial, LAST), trial.results, trial.seeds)


def _write_spec(experiment: Experiment, trial: Trial) -> None:
    """A spec of this trial alone, with its seeds, for ``bin/lab train``."""
    spec = experiment.spec
    meta = dataclasses.replace(spec.meta, sessions=len(trial.seeds), seed=trial.seeds[0])
    name = f"{spec.name}_{trial.name}"
    alone = dataclasses.replace(
        spec, name=name, settings=trial.settings, meta=meta, searched=(), description=trial.what,
        by_level={},  # of the first spec of a benchmark; the trial's settings have its own
    )  # fmt: skip
    content = json.dumps({name: {**alone.content(), "frozen": spec.frozen}}, indent=1)
    write_whole(experiment.trial_file(trial, "spec.json"), content.encode())


def write_experiment(
    experiment: Experiment, draw: bool = True, result: Mapping[str, Any] | None = None
) -> None:
    """The tables, the graph and the page of all trials so far; but for the first, only if asked.

    ``result`` is what came out, if that is not in the experiment's folder yet.
    """
    trials = experiment.trials()
    tables.write_experiment(experiment, trials)
    if not draw:
        return
    is_benchmark = experiment.mode == "benchmark" and bool(trials)
    if is_benchmark:
        benchmark.draw(experiment, trials, experiment.file(GRAPH))
    else:
        graphs.write_experiment(experiment.file(GRAPH), trials, experiment.spec.name)
    scores = benchmark.write(experiment, trials) if is_benchmark else []
    page.write(experiment, trials, result or experiment.result(), scores)
