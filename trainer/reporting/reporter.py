"""Telling how a run goes, in all places at once: terminal, log, metrics, TensorBoard."""

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from trainer.machine.terminal import Terminal
from trainer.reporting import wording
from trainer.reporting.curve import write_curve
from trainer.reporting.events import EventsFile
from trainer.reporting.panel import Panel
from trainer.reporting.summary import summary
from trainer.settings import config
from trainer.settings.config import Settings
from trainer.storage.records import (
    METRICS,
    GrowingFile,
    LinesFile,
    plain,
    read_metrics,
    to_line,
    write_whole,
)

__all__ = ["Reporter", "read_metrics", "summary"]

LOG = "train.log"
SETTINGS = "settings.json"


class Reporter:
    """Sends each report to the terminal and to the files of a run's folder.

    A file that cannot be written is told once on the terminal and tried again with each
    report; the training never stops for it.
    """

    def __init__(self, folder: Path, settings: Settings, about: dict[str, str]):
        self.folder = Path(folder)
        self._settings = settings
        self._panel = Panel(settings, about)
        self._terminal = Terminal(sys.stdout, self._panel)
        self._log = LinesFile(self.folder / LOG)
        self._metrics = LinesFile(self.folder / METRICS)
        self._events = EventsFile(self.folder)
        self._failing: list[str] = []
        self._write_settings()
        for row in self._reported():
            self._panel.update(row)
        self.say(" · ".join(f"{name} {text}" for name, text in about.items()))
        self._log_line("flags: " + (config.to_command(settings) or "none"))

    def __enter__(self) -> "Reporter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def say(self, text: str) -> None:
        """A plain line, to the terminal and the log."""
        self._terminal.say(text)
        self._log_line(text)
        self._tell_trouble()

    def note(self, text: str) -> None:
        """A line of lesser weight, such as of a checkpoint: in a terminal the panel's last."""
        self._panel.note = text
        if self._terminal.is_live:
            self._log_line(text)
            self._tell_trouble()
        else:
            self.say(text)

    def report(self, figures: dict[str, Any], samples: dict[str, np.ndarray]) -> None:
        """Figures since the last report, and samples to draw histograms of."""
        # What is no number is unknown in all places alike.
        figures = {name: plain(value) for name, value in figures.items()}
        line = wording.line(
            figures,
            self._settings.learning.total_environment_frames,
            self._settings.algorithm.figures,
        )
        self._terminal.show(figures, line)
        self._log_line(line)
        self._metrics.append_line(to_line(figures))
        self._events.add(figures, samples)
        self._tell_trouble()

    def close(self) -> None:
        """Ends the panel; lines may still be said."""
        self._terminal.close()

    def finish(self, figures: dict[str, Any], reason: str) -> None:
        """The run's end: closes the panel, draws the curve and says the summary.

        ``figures`` are the last report's, with rates and shares of waiting of the whole run,
        and ``num_actors``.
        """
        self.close()
        try:
            write_curve(self.folder, self._settings)
        except OSError as error:
            self.say(f"warning: the learning curve could not be drawn ({_why(error)}).")
        self.say(summary(self._described(figures), reason, self.folder))

    def _described(self, figures: dict[str, Any]) -> dict[str, Any]:
        names = ("level_name", "agent_name", "job_name")
        returns = [row.get("mean_episode_return") for row in self._reported()]
        return {
            **{name: plain(value) for name, value in figures.items()},
            **{name: self._settings.flat()[name] for name in names},
            "best_return": max((value for value in returns if value is not None), default=None),
        }

    def _reported(self) -> list[dict[str, Any]]:
        try:
            return read_metrics(self.folder)
        except OSError:
            return []

    def _write_settings(self) -> None:
        try:
            write_whole(self.folder / SETTINGS, config.to_json(self._settings).encode() + b"\n")
        except OSError as error:
            self._terminal.say(
                f"warning: {self.folder / SETTINGS} could not be written ({_why(error)})."
            )

    def _log_line(self, text: str) -> None:
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        self._log.append_line("\n".join(f"{stamp}  {line}" for line in text.split("\n")))

    def _tell_trouble(self) -> None:
        """Warns of files that have come to fail, and tells when all can be written again."""
        files: list[GrowingFile] = [self._log, self._metrics, self._events]
        failing = {file.path.name: file.error for file in files if file.error is not None}
        fresh = [name for name in failing if name not in self._failing]
        if fresh:
            self._failing += fresh
            why = _why(failing[fresh[0]])
            self._terminal.say(
                f"warning: {', '.join(fresh)} in {self.folder} cannot be written ({why}). "
                "The training goes on; what is reported until that is mended is lost there."
            )
        elif self._failing and not failing:
            self._failing = []
            self.say(f"The reports in {self.folder} can be written again.")


def _why(error: OSError | None) -> str:
    return getattr(error, "strerror", None) or str(error)
