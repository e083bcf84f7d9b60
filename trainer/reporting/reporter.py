"""Sends the reports of a run to the terminal, the log, the metrics file and TensorBoard."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from algorithms.figures import WORLD, Figure
from environments import Measure
from trainer.machine.terminal import Terminal
from trainer.reporting import wording
from trainer.reporting.curve import NAME as CURVE
from trainer.reporting.curve import title, write_curve
from trainer.reporting.events import EventsFile
from trainer.reporting.metrics import RECENT_EPISODES
from trainer.reporting.panel import Panel
from trainer.reporting.reporters import ReporterThreads
from trainer.reporting.several import OfAgent, SeveralOnTerminal
from trainer.reporting.summary import summary
from trainer.settings import config
from trainer.settings.config import Settings
from trainer.storage.records import (
    METRICS,
    SETTINGS,
    GrowingFile,
    LinesFile,
    of_level,
    plain,
    read_metrics,
    to_line,
    write_whole,
)
from user_error import UserError

LOG = "train.log"
PROGRESS = ("environment_frames", "wall_time")


class Reporter:
    """Sends each report to the terminal and to the files of a run's folder.

    A file that cannot be written is reported once on the terminal and tried again with each
    report; training never stops because of it.
    """

    def __init__(
        self,
        folder: Path,
        settings: Settings,
        about: dict[str, str],
        measures: Sequence[Measure] = (),
        several: SeveralOnTerminal | None = None,
        level_since: int = 0,
    ):
        """``measures`` are what the level reports besides the algorithm.

        ``several`` is the terminal that this run shares with those of other agents. ``level_since``
        are the frames at which the run began to play its level.
        """
        self.folder = Path(folder)
        self._level_since = level_since
        self._settings = settings  # all of them, to record them
        self._others = ReporterThreads(settings.reporting.reporters, self.folder, settings.flat())
        self._total = settings.learning.total_environment_frames
        measured = (Figure(one.name, one.label, WORLD) for one in measures)
        self._own_figures = (*settings.algorithm.figures, *measured)
        self._panel = Panel(
            settings.run_folder, self._total, self._own_figures, about, brief=several is not None
        )
        self._terminal: Terminal | OfAgent = (
            several.of(settings.program.agent, self._panel)
            if several
            else Terminal(sys.stdout, self._panel)
        )
        self._log = LinesFile(self.folder / LOG)
        self._metrics = LinesFile(self.folder / METRICS)
        self._events = EventsFile(self.folder)
        self._failing: list[str] = []
        self._settings_due = False  # to be recorded: what is trained with them has begun
        self._settings_error: OSError | None = None
        rows = self._reported()
        for row in rows[-1:]:  # of another level, only how far it got
            self._panel.update({name: row[name] for name in PROGRESS if name in row})
        for row in of_level(rows, level_since):
            self._panel.update(row)
        self.say(" · ".join(f"{name} {text}" for name, text in about.items()))
        self._log_line("flags: " + (config.to_command(settings) or "none"))

    def __enter__(self) -> "Reporter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write_settings(self) -> None:
        """Records the settings with which the run is trained from now on."""
        self._settings_due = True
        self._try_settings()
        self._report_failures()

    def _try_settings(self) -> None:
        """Writes the settings if they are due and not there yet."""
        if not self._settings_due:
            return
        try:
            write_whole(self.folder / SETTINGS, config.to_json(self._settings).encode() + b"\n")
            self._settings_due, self._settings_error = False, None
        except OSError as error:
            self._settings_error = error

    def say(self, text: str) -> None:
        """Prints a plain line on the terminal and in the log."""
        self._terminal.say(text)
        self._log_line(text)
        self._report_failures()

    def note(self, text: str) -> None:
        """Prints a minor line, such as of a checkpoint; a live terminal shows it in the panel."""
        self._panel.note = text
        if self._terminal.is_live:
            self._log_line(text)
            self._report_failures()
        else:
            self.say(text)

    def report(self, figures: dict[str, Any], samples: dict[str, np.ndarray]) -> dict[str, Any]:
        """Sends the figures since the last report, and samples for histograms.

        Returns the figures as they were sent.
        """
        # Numbers that are not finite are unknown everywhere.
        figures = plain(figures)
        line = wording.line(figures, self._total, self._own_figures)
        self._terminal.show(figures, line)
        self._log_line(line)
        self._metrics.append_line(to_line(figures))
        self._events.add(figures, samples)
        self._others.report(figures)
        self._try_settings()
        self._report_failures()
        return figures

    def best_return(self) -> float | None:
        """The best mean return of all reports since the run has played this level.

        A mean over a few episodes may be luck: it counts where there is no other.
        """
        rows = [
            row
            for row in of_level(self._reported(), self._level_since)
            if row.get("mean_episode_return") is not None
        ]
        whole = [row for row in rows if row.get("recent_episodes", 0) >= RECENT_EPISODES]
        return max((row["mean_episode_return"] for row in whole or rows), default=None)

    def close(self) -> None:
        """Ends the panel; lines can still be printed."""
        self._terminal.close()

    def finish(self, figures: dict[str, Any], reason: str) -> None:
        """Ends the run: closes the panel, draws the curve and prints the summary.

        ``figures`` are the last report's, with rates and waiting times of the whole run, and
        ``num_actors``.
        """
        self.close()
        self._try_settings()
        self._draw()
        described = self._described(figures)
        self.say(summary(described, reason, self.folder))
        self._others.finish(described | {"reason": reason})
        self._report_failures()

    def make_up(self, figures: dict[str, Any], reason: str) -> None:
        """Does what is missing of the end of a run that was killed there; ``figures`` as above."""
        files = [self.folder / name for name in (CURVE, METRICS)]
        drawn, reported = [file.stat().st_mtime_ns if file.exists() else 0 for file in files]
        if drawn < reported:
            self._draw()
        self._others.finish(self._described(figures) | {"reason": reason})
        self._report_failures()

    def _draw(self) -> None:
        try:
            write_curve(self.folder, self._title(), self._level_since)
        except Exception as error:  # of the disk, or of what draws: the training is over and kept
            self.say(f"warning: the learning curve could not be drawn ({_reason(error)}).")

    def end_with_error(self, error: BaseException) -> None:
        """Ends the reporters of a run that has no summary."""
        if isinstance(error, UserError):  # the program prints it, last of all
            self._log_line(f"Ended: {error}")
        self._others.finish({"reason": "an error", "error": f"{type(error).__name__}: {error}"})
        self._report_failures()

    def _title(self) -> str:
        settings = self._settings
        return title(settings.level.levels, settings.agent.agent_name, settings.program.seed)

    def _described(self, figures: dict[str, Any]) -> dict[str, Any]:
        names = ("level_name", "agent_name", "job_name")
        return {
            **plain(figures),
            **{name: self._settings.flat()[name] for name in names},
            "best_return": self.best_return(),
        }

    def _reported(self) -> list[dict[str, Any]]:
        try:
            return read_metrics(self.folder)
        except OSError:
            return []

    def _log_line(self, text: str) -> None:
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        self._log.append_line("\n".join(f"{stamp}  {line}" for line in text.split("\n")))

    def _report_failures(self) -> None:
        """Warns of files and reporters that have begun to fail, and of files that work again."""
        files: list[GrowingFile] = [self._log, self._metrics, self._events]
        errors = {file.path.name: file.error for file in files} | {SETTINGS: self._settings_error}
        failing = {name: error for name, error in errors.items() if error is not None}
        new = [name for name in failing if name not in self._failing]
        if new:
            self._failing += new
            reason = _reason(failing[new[0]])
            self._terminal.say(
                f"warning: {', '.join(new)} in {self.folder} cannot be written ({reason}). "
                "Training continues, but reports are missing there until this is fixed."
            )
        elif self._failing and not failing:
            self._failing = []
            self.say(f"The reports in {self.folder} can be written again.")
        for warning in self._others.new_warnings():
            self.say(warning)


def _reason(error: Exception | None) -> str:
    return getattr(error, "strerror", None) or str(error)
