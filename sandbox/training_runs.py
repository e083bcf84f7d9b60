"""What all studies share: trainings run one after another, and their reports as curves and CSV."""

import csv
import dataclasses
import importlib.metadata
import json
import platform
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from trainer.machine.launching import PROJECT
from trainer.settings import config
from trainer.storage.records import read_metrics, write_whole
from user_error import UserError

# Reports of a training that go into the CSV, spread evenly over it; the last is always there.
POINTS = 400
COLUMNS = (
    "variant",
    "seed",
    "environment_frames",
    "agent_steps",
    "wall_time",
    "mean_episode_return",
    "episodes",
    "policy_lag",
    "steps_per_second",
    "entropy",
)


@dataclasses.dataclass(frozen=True)
class Training:
    """One training of a study: its variant, its seed, its folder, and all of its flags.

    With ``until`` only so many frames of it count, and it is stopped there.
    """

    variant: str
    seed: int
    folder: Path
    flags: tuple[str, ...] = ()
    until: float | None = None


@dataclasses.dataclass(frozen=True)
class Curve:
    """What one training reported, in the order of training."""

    variant: str
    seed: int
    rows: list[dict[str, Any]]

    def values(self, name: str) -> list[float]:
        """One figure of each report."""
        return [row[name] for row in self.rows]


def run_all(trainings: Sequence[Training]) -> None:
    """Runs the unfinished trainings in turn; finished ones are not repeated."""
    for number, training in enumerate(trainings, start=1):
        if is_finished(training):
            print(f"{training.folder} is already trained.", flush=True)
            continue
        what = " · ".join(filter(None, (training.variant, f"seed {training.seed}")))
        print(f"Training {number} of {len(trainings)}: {what}", flush=True)
        _run(training)


def is_finished(training: Training) -> bool:
    """Whether the folder holds all frames that the flags ask for."""
    rows = read_metrics(training.folder)
    if not rows:
        return False
    # What the flags leave open, the training has filled in.
    chosen = json.loads((training.folder / "settings.json").read_text())
    wanted = config.parse(training.flags).learning.total_environment_frames
    whole = wanted or chosen["total_environment_frames"]
    return rows[-1]["environment_frames"] >= min(whole, training.until or whole)


def _run(training: Training) -> None:
    # Ctrl-C reaches the training too, which saves and ends; this process has to wait for that.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        process = subprocess.Popen(
            [sys.executable, str(PROJECT / "experiment.py"), *training.flags]
        )
        returncode = _wait(process, training)
    finally:
        signal.signal(signal.SIGINT, before)
    if returncode:
        raise UserError(f"the training in {training.folder} ended with {returncode}.")
    if not is_finished(training):
        raise UserError(
            f"the training in {training.folder} was stopped. The same command continues from there."
        )


def _wait(process: subprocess.Popen[bytes], training: Training) -> int:
    """Waits until a training has ended, or has gone as far as it shall; returns its exit code."""
    while training.until is not None and process.poll() is None:
        if is_finished(training):
            process.terminate()  # it saves, and ends
            break
        time.sleep(1)
    return process.wait()


def curve_of(training: Training) -> Curve:
    """The reports of a training from the first that has a mean return to the last that counts."""
    rows = [row for row in read_metrics(training.folder) if _counts(row, training.until)]
    if not rows:
        raise UserError(f"{training.folder} holds no report with a mean return.")
    return Curve(training.variant, training.seed, rows)


def _counts(row: dict[str, Any], until: float | None) -> bool:
    early = until is None or row["environment_frames"] <= until
    return early and row.get("mean_episode_return") is not None


def finished_training(folder: Path, variant: str) -> Training:
    """A finished training in any folder."""
    try:
        settings = json.loads((folder / "settings.json").read_text())
        return Training(
            variant,
            int(settings["seed"]),
            folder,
            tuple(config.to_flags(config.from_record(settings))),
        )
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{folder} is no run's folder: {error}.") from None


def write_csv(path: Path, curves: Iterable[Curve]) -> None:
    """The reports of all trainings, at most ``POINTS`` of each."""
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for curve in curves:
            for row in thinned(curve.rows):
                own = {"variant": curve.variant, "seed": curve.seed}
                writer.writerow([_cell((row | own).get(name)) for name in COLUMNS])


def thinned(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Some of the rows, evenly, the last among them."""
    step = -(-len(rows) // POINTS)
    return rows[::-1][::step][::-1]


def _cell(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value


def write_record(path: Path, trainings: Sequence[Training]) -> None:
    """Where, with what and how a study was run, so that others can run it again."""
    runs = [
        {"variant": one.variant, "seed": one.seed, "flags": shlex.join(one.flags)}
        for one in trainings
    ]
    write_whole(path, json.dumps(about() | {"trainings": runs}, indent=1).encode() + b"\n")


def about() -> dict[str, Any]:
    """The command of this process, where it runs, and with what."""
    from benchmarks.tools.machine import processor

    packages = ("tensorflow-cpu", "tensorflow", "dm-sonnet", "gymnasium", "ale-py")
    return {
        "command": "python -m " + shlex.join([_module(), *sys.argv[1:]]),
        "machine": processor(),
        "python": platform.python_version(),
        "packages": {name: version for name in packages if (version := _version(name))},
    }


def _module() -> str:
    return f"sandbox.{Path(sys.argv[0]).stem}"


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
