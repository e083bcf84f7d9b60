"""Ends and repeats: stop, retry, clear."""

import contextlib
import os
import shutil
import signal
import time
from pathlib import Path

from lab.actions.locking import running_by
from lab.actions.looking import candidates, chosen
from lab.results import writing
from lab.trials.folder import FAILED, OPEN, Experiment
from lab.trials.sessions import RUNNING
from trainer.machine.launching import script_name
from user_error import UserError

STOP_WITHIN_S = 60.0
LOOK_EVERY_S = 0.2


def stop(argument: str, data: Path) -> int:
    """Stops an experiment and its sessions, and nothing else; it can go on later.

    Of several it is the newest that runs.
    """
    found = candidates(argument, data)
    running = next((one for one in reversed(found) if _runs(one)), None)
    experiment = running or found[-1]
    by = running_by(experiment.folder)
    if by and not (by.process and by.is_here):
        where = f"runs on {by.host}" if by.process else "is running, but which process is not known"
        raise UserError(f"{experiment.folder} {where}; stop it where it was started.")
    if by:
        with contextlib.suppress(ProcessLookupError):
            os.kill(by.process, signal.SIGTERM)
    until = time.monotonic() + STOP_WITHIN_S
    while (busy := _busy(experiment)) and time.monotonic() < until:
        if not running_by(experiment.folder):  # it was killed; its sessions have outlived it
            for session in busy:
                session.stop()
        time.sleep(LOOK_EVERY_S)
    while running_by(experiment.folder) and time.monotonic() < until:
        time.sleep(LOOK_EVERY_S)
    if _busy(experiment) or running_by(experiment.folder):
        raise UserError(f"{experiment.folder}: not all sessions ended within {STOP_WITHIN_S:g} s.")
    if experiment.result():
        print(f"{experiment.folder} is finished{'' if running else '; nothing was running'}.")
        return 0
    state = "is stopped" if running else "is not running"
    goes_on = f"{script_name('bin/lab')} {experiment.mode} {experiment.folder} goes on."
    print(f"{experiment.folder} {state}; {goes_on}")
    return 0


def _runs(experiment: Experiment) -> bool:
    """Whether a lab runs it, or sessions have outlived theirs, by records that can be read."""
    with contextlib.suppress(UserError):
        return bool(running_by(experiment.folder) or _busy(experiment))
    return False


def _busy(experiment: Experiment) -> list:
    every = [one for trial in experiment.trials() for one in experiment.sessions(trial)]
    return [session for session in every if session.state() == RUNNING]


def retry(argument: str, trials: list[str], data: Path) -> int:
    """Lets failed trials run again, from their start, with the next start of the experiment."""
    experiment = chosen(argument, data)
    if running_by(experiment.folder):
        raise UserError(f"{experiment.folder} is running; stop it first.")
    known = {trial.name: trial for trial in experiment.trials()}
    for name in trials:
        if name not in known:
            raise UserError(
                f"{experiment.folder}: found {name}; expected one of {', '.join(known)}."
            )
        if known[name].state != FAILED:
            raise UserError(
                f"{experiment.folder}: {name} is {known[name].state}; expected a failed one."
            )
    again = [
        one for one in known.values() if one.state == FAILED and (not trials or one.name in trials)
    ]
    if not again:
        print(f"{experiment.folder}: no trial has failed.")
        return 0
    experiment.reopen()
    for trial in again:
        for session in experiment.sessions(trial):
            session.forget()
        trial.state, trial.reason, trial.attempts, trial.results = OPEN, "", {}, {}
        writing.forget(experiment, trial)
        experiment.save(trial)
    names = ", ".join(one.name for one in again)
    command = f"{script_name('bin/lab')} {experiment.mode} {experiment.folder}"
    print(f"{names} will run again: {command}")
    return 0


def clear(argument: str, yes: bool) -> int:
    """Removes the folder of an experiment, after asking."""
    experiment = Experiment(Path(argument))
    if running_by(experiment.folder) or _busy(experiment):
        raise UserError(f"{experiment.folder} is running; stop it first.")
    files = [path for path in experiment.folder.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files) / 1e6
    if not yes:
        try:
            asked = f"Remove {experiment.folder} with {len(files)} files, {size:.1f} MB? [y/N] "
            yes = input(asked).strip().lower() in ("y", "yes")
        except EOFError:
            print()
    if not yes:
        print("Nothing was removed.")
        return 1
    shutil.rmtree(experiment.folder)
    print(f"{experiment.folder} is removed.")
    return 0
