"""Training and evaluating from a program or a notebook. TensorFlow is loaded on the first use."""

import dataclasses
import gc
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainer.machine.quiet import import_tensorflow
from trainer.programs.outcome import Outcome
from trainer.settings import config, sources
from trainer.settings.checks import check, check_ranges
from trainer.settings.config import Settings
from user_error import UserError

__all__ = ["Evaluation", "Outcome", "Settings", "UserError", "evaluate", "read_settings", "train"]

Callback = Callable[[dict[str, Any]], bool | None]


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Games that a trained agent has played."""

    checkpoint: Path
    environment_frames: int  # that the agent was trained for
    levels: dict[str, dict[str, Any]]  # statistics, returns, lengths and frames of each level
    grid: list[dict[str, Any]]  # with ``grid``: the same for each combination, and its settings

    @property
    def returns(self) -> list[float]:
        """The raw return of each episode, level by level."""
        return [one for level in self.levels.values() for one in level["returns"]]

    @property
    def mean_return(self) -> float:
        """The mean raw return; of several levels, the mean of their means."""
        if not self.levels:
            raise UserError("mean_return: with a grid, each of .grid has a mean of its own.")
        return sum(level["mean"] for level in self.levels.values()) / len(self.levels)


def read_settings(preset: str = "", config_file: str | Path = "", **changes: Any) -> Settings:
    """Settings of a preset and a file, see ``--preset`` and ``--config``; ``changes`` win."""
    found = sources.collect(preset, str(config_file), changes.get("algorithm"), config.fields)
    return Settings(**(found.values | changes))


def train(settings: Settings, callback: Callback | None = None) -> Outcome:
    """Trains in this process; returns how it ended. The same folder resumes its run.

    ``callback`` gets the figures of each report, every ``report_every_s`` seconds and at the end.
    If it returns False, training ends with a checkpoint. An error in it ends training, too, with a
    checkpoint, and is raised.

    In the main thread, the first Ctrl-C ends training with a checkpoint and ``train`` returns.
    SIGTERM does the same, and then what it does in your program. A second signal does that at once.
    So does SIGHUP, of a terminal that closes, but as often as it comes.
    """
    if settings.program.job_name != "local":
        raise UserError(
            f"--job_name={settings.program.job_name}: train() trains in this process only. Start "
            "learners and actors with experiment.py."
        )
    launched = time.time()
    # An outcome's settings of one of several agents say which it was.
    own = {} if settings.level.agents else {"agent": ""}
    settings = _checked(settings.replace(mode="train", **own))
    _load_tensorflow()
    from trainer.programs import local
    from trainer.programs.stopping import StopSignal
    from trainer.trained import alongside

    alongside.check(settings)
    stop = StopSignal(restores=True)

    def on_report(figures: dict[str, Any]) -> None:
        answer = None if callback is None else callback(figures)
        if answer is not None and not answer:  # NumPy's False, too
            stop.request("the callback asked for it")

    outcome = local.train(settings, stop, on_report, launched, alongside.start)
    if stop.name in (signal.SIGTERM.name, signal.SIGHUP.name):
        signal.raise_signal(signal.Signals[stop.name])
    return outcome


def evaluate(settings: Settings) -> Evaluation:
    """Plays ``test_num_episodes`` games a level with the agent in the run's folder.

    Settings that differ from their defaults win over those that the agent was trained with.
    """
    settings = _checked(settings.replace(mode="test"))
    _load_tensorflow()
    from trainer.trained import evaluation

    report = evaluation.evaluate(settings)
    if not report:
        raise UserError("--checkpoint=zoo: lists names; expected zoo:NAME to play with one.")
    return Evaluation(
        Path(report["checkpoint"]),
        report["environment_frames"],
        report["levels"],
        report.get("grid", []),
    )


def _checked(settings: Settings) -> Settings:
    check_ranges(settings)
    check(settings)
    return settings


def _load_tensorflow() -> None:
    if "tensorflow" not in sys.modules:
        import_tensorflow()
        gc.unfreeze()  # the import exempts all objects from collection, also the caller's
