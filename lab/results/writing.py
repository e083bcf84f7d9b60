"""Writes what comes out of an experiment: tables, graphs, TensorBoard's HParams, the page."""

from lab.results import benchmark, graphs, hparams, page, tables
from lab.results.curves import curve_of
from lab.trials.folder import OPEN, Experiment, Trial


def on_result(experiment: Experiment, trial: Trial | None) -> None:
    """Writes all of a trial that has ended, and all of the experiment that it changes."""
    if trial is not None:
        write_trial(experiment, trial)
    write_experiment(experiment)


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
    for place, session in enumerate(sessions):
        rows = session.rows()
        if not rows:
            continue
        tables.write_session(experiment.trial_file(trial, "session_df.csv", place), rows)
        picture = experiment.trial_file(trial, "session_graph.png", place)
        graphs.write_session(picture, rows, f"{title} · seed {session.seed}")
        hparams.write(experiment, trial, session)
    tables.write_fitness(
        experiment.trial_file(trial, "trial_fitness_df.csv"), trial.results, trial.seeds
    )
    curves = [curve_of(session.rows()) for session in sessions]
    graphs.write_trial(experiment.trial_file(trial, "trial_graph.png"), curves, title)


def write_experiment(experiment: Experiment) -> None:
    """The table, the graph and the page of all trials so far."""
    trials = experiment.trials()
    tables.write_experiment(experiment, trials)
    graphs.write_experiment(experiment.file("experiment_graph.png"), trials, experiment.spec.name)
    page.write(experiment, trials)
    if experiment.mode == "benchmark" and trials:
        benchmark.write(experiment, trials)
