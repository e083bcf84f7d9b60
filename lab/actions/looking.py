"""Looks at experiments: status, graph, enjoy."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.table import Table

from lab.actions.locking import running_by
from lab.results import writing
from lab.running.progress import Snapshot, counts
from lab.specs import spec as specs
from lab.trials import plan
from lab.trials.folder import FAILED, OPEN, Experiment, find
from lab.trials.sessions import RUNNING
from trainer.machine.launching import PROJECT
from trainer.reporting.wording import count, number
from trainer.trained import scoreboard
from user_error import UserError


def chosen(argument: str, data: Path) -> Experiment:
    """The experiment of a folder, or the newest of a spec; without either the newest of all."""
    return candidates(argument, data)[-1]


def candidates(argument: str, data: Path) -> list[Experiment]:
    """The one experiment of a folder, or those of a spec, or all: the newest last."""
    if argument and Path(argument).is_dir():
        return [Experiment(Path(argument))]
    names = specs.started_as(argument) if argument else set()
    found = find(data, names)
    if not found:
        what = f"called {' or '.join(sorted(names))} " if names else ""
        raise UserError(
            f"--data={data}: found no experiment {what}there; expected one that has run."
        )
    return found


def status(argument: str, data: Path) -> int:
    """Prints every trial of an experiment: its state and its figures."""
    experiment = chosen(argument, data)
    trials = experiment.trials()
    by = running_by(experiment.folder)
    state = "running" if by else ("finished" if experiment.result() else "stopped")
    about = f", {by}" if by else ""
    print(f"{experiment.folder} · {experiment.mode} · {state}{about}")
    print(counts(Snapshot(trials, (), plan.expected(experiment, trials), 1)))
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    for name in ("trial", "state", "objective", "best return", "frames"):
        table.add_column(name, justify="left" if name in ("trial", "state") else "right")
    table.add_column("settings", overflow="fold")
    ranked = plan.ranked(trials)
    for trial in [*ranked, *(one for one in trials if one not in ranked)]:
        sessions = experiment.sessions(trial)
        frames = sum(session.newest().get("environment_frames", 0) for session in sessions)
        running = (
            sum(session.state() == RUNNING for session in sessions) if trial.state == OPEN else 0
        )
        state = f"{running} running" if running else trial.state
        what = f"{trial.reason} · {trial.what}" if trial.state == FAILED else trial.what
        objective, highest = trial.results.get("objective"), trial.results.get("best_return")
        table.add_row(trial.name, state, number(objective), number(highest), count(frames), what)
    scoreboard.console().print(table)
    return 0


def graph(argument: str, data: Path) -> int:
    """Writes all tables, graphs and the page anew."""
    experiment = chosen(argument, data)
    writing.write_all(experiment)
    print(f"Written: {experiment.folder}/index.html and the tables and graphs beside it.")
    return 0


def enjoy(argument: str, data: Path, flags: Sequence[str]) -> int:
    """Plays with the best checkpoint of the best trial; ``flags`` go to experiment.py."""
    experiment = chosen(argument, data)
    without: list[str] = []
    for trial in plan.playable(experiment.trials()):
        sessions = experiment.sessions(trial)
        known = [one.get("best_return") for one in trial.results["sessions"]]
        returns = [float("-inf") if one is None else one for one in known]
        for place in sorted(range(len(sessions)), key=lambda place: -returns[place]):
            folder = sessions[place].folder
            if not list(folder.glob("checkpoints/*.npz")):
                continue
            if without:
                print(f"No checkpoint of {', '.join(without)}, which did better.", flush=True)
            checkpoint = "best" if (folder / "checkpoints" / "best.npz").exists() else "newest"
            print(f"{trial.name} s{place}, seed {sessions[place].seed}: {folder}", flush=True)
            command = [sys.executable, str(PROJECT / "experiment.py"), "--mode=test"]
            command += [f"--logdir={folder}", f"--checkpoint={checkpoint}", *flags]
            return subprocess.run(command, check=False).returncode
        without.append(trial.name)
    raise UserError(
        f"{experiment.folder}: found no checkpoint; expected one of a trial that came to its end."
    )
