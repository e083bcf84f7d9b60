"""What a run says: its log, a row of figures for each collection, remarks for its policy's card."""

import contextlib
import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from trainer.machine import terminal
from trainer.reporting.events import EventsFile
from trainer.storage.folder import writing
from trainer.storage.played import Stored
from trainer.storage.records import (
    METRICS,
    LinesFile,
    read_metrics,
    to_line,
    write_report,
    write_whole,
)
from trainer.trained.bundling import REMARKS
from world_models.schedule import Phase
from world_models.training.folders import Complaints, Folders

IN_LINE = (
    *("mean_episode_return", "episodes", "unfinished_episodes", "mean_unfinished_return"),
    *("model/reward_accuracy/at_12", "model/reward_accuracy/at_50"),
    "model/from_start/reward_accuracy/to_end",
)
COUNTED = "parts_counted"
KEPT = "kept_figures.json"
OF_REAL_PLAY = ("mean_episode_return", "episodes", "unfinished_episodes", "real_steps")


class Reports:
    """The files in a run's folder that grow with it."""

    def __init__(self, folders: Folders, frames_per_step: int):
        self._folders, self._frames_per_step = folders, frames_per_step
        self._log = LinesFile(folders.run / "train.log")
        self._metrics = LinesFile(folders.run / METRICS)
        self._events = EventsFile(folders.run)
        self._complaints = Complaints(self.say)
        self._kept = folders.run / KEPT
        self._figures = self._kept_before()  # of the phases since the last row

    def say(self, text: str) -> None:
        """Keeps a line in the log and prints it, if somebody can read it."""
        self._log.append_line(f"{time.strftime('%Y-%m-%d %H:%M:%S')}  {text}")
        terminal.say(text)

    def warn(self, text: str) -> None:
        """The same for what went wrong."""
        self.say(f"warning: {text}")

    def keep(self, figures: dict[str, Any]) -> None:
        """Keeps figures of a phase for the next row, also if the run ends before."""
        self._figures |= figures
        try:
            write_whole(self._kept, to_line(self._figures).encode() + b"\n")
        except OSError as error:
            self.warn(f"{self._kept} could not be written ({error.strerror or error}).")

    @contextlib.contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Adds the seconds of a phase, or of the part of it until a stop, to the next row."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.keep({name: self._figures.get(name, 0.0) + time.monotonic() - began})

    def _kept_before(self) -> dict[str, Any]:
        """What earlier processes of the run have kept and not written into a row."""
        try:
            kept = json.loads(self._kept.read_bytes())
        except (OSError, ValueError):
            return {}
        return kept if isinstance(kept, dict) else {}

    def counted(self, collected: Sequence[Stored]) -> int:
        """How many of these parts the rows so far count: a run may be killed before it reports."""
        last = next(reversed(read_metrics(self._folders.run)), None)
        if last is None:
            return 0
        of_epochs = sum(one.about["epoch"] <= last["epoch"] for one in collected)
        counted = last.get(COUNTED, of_epochs)  # earlier versions did not write it
        return min(counted, len(collected))  # damaged ones may have been removed since

    def of_play(
        self,
        phase: Phase,
        new: Sequence[Stored],
        steps: int,
        of_model: dict[str, Any],
        counted: int,
    ) -> dict[str, Any]:
        """A row of figures: real returns, and how well the model had predicted this play.

        ``counted`` are the parts that are in rows with this one.
        """
        returns = [one for stored in new for one in stored.about["returns"]]
        # Games that go on: they count in a later collection, or never. Where the run was killed,
        # all games began anew.
        last = [
            stored
            for stored, after in zip(new, [*new[1:], None], strict=True)
            if after is None or after.part.first[0].all()
        ]
        cut = [one for stored in last for one in stored.about["unfinished_returns"]]
        figures: dict[str, Any] = {
            "environment_frames": steps * self._frames_per_step,
            "real_steps": steps,
            "epoch": phase.epoch,
            "mean_episode_return": float(np.mean(returns)) if returns else None,
            "episodes": len(returns),
            "unfinished_episodes": len(cut),
            "mean_unfinished_return": float(np.mean(cut)) if cut else None,
            COUNTED: counted,
            **self._figures,
            **{f"model/{name}": value for name, value in of_model.items()},
        }
        self._metrics.append_line(to_line(figures))
        if not self._metrics.error:
            self._figures = {}
            with contextlib.suppress(OSError):
                self._kept.unlink(missing_ok=True)
        self._events.add(figures, {})
        self._complaints.about(self._log, self._metrics, self._events)
        words = [
            f"{name.removeprefix('model/').replace('_', ' ')} {figures[name]:.3g}"
            for name in IN_LINE
            if figures.get(name) is not None
        ]
        self.say(f"collect {phase.epoch}: {steps:,} real steps · " + " · ".join(words))
        return figures

    def remark(self, policy_steps: int, updates: int, real: dict[str, Any] | None = None) -> None:
        """For the policy's card: what it reached in the real game, not in dreams."""
        remarks = {
            "environment_frames": policy_steps * self._frames_per_step,
            "trained_in": "a world model",
            "model_updates": updates,
            "mean_return_in_training": real and real["mean_episode_return"],
            "of_real_play": real and {name: real[name] for name in OF_REAL_PLAY},
        }
        with writing(self._folders.policy):
            write_report(self._folders.policy / REMARKS, remarks)
