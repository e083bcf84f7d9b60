"""Trains the model from stored real play."""

import time
from collections.abc import Callable

import numpy as np

from trainer.reporting.events import EventsFile
from trainer.settings.config import Settings
from trainer.storage.records import METRICS, LinesFile, to_line, write_whole
from trainer.team.team import ALONE, Team
from user_error import UserError
from world_models.networks.loss import Losses
from world_models.training import evaluating, pictures
from world_models.training.experience import Experience
from world_models.training.folders import Complaints, Folders
from world_models.training.model_updates import updates
from world_models.training.world_model import WorldModel

SHOWN_STEPS = 12
SHOWN_ROLLOUTS = 4


class ModelPhase:
    """Updates of a model, with its reports, checkpoints and pictures."""

    def __init__(
        self,
        settings: Settings,
        folders: Folders,
        model: WorldModel,
        say: Callable[[str], None],
        team: Team = ALONE,
    ):
        """``team`` are the learners that do the same."""
        self._settings = settings
        self._team = team
        self._folder = folders.model
        self._model = model
        self._say = say
        self._complaints = Complaints(say)
        self._metrics = LinesFile(self._folder / METRICS)
        self._events = EventsFile(self._folder)

    def run(self, real: Experience, total: int, stopped: Callable[[], bool]) -> None:
        """Trains until ``total`` updates or a stop; then, and now and then before, it is saved."""
        settings, model = self._settings, self._model
        self._since = self._saved = time.monotonic()
        recent: list[Losses] = []
        for losses in updates(settings, model, real, total, stopped, self._team):
            recent.append(losses)
            now = time.monotonic()
            if now - self._since >= settings.reporting.report_every_s:
                self._report(recent, total)
                recent = []
            if now - self._saved >= settings.storage.checkpoint_every_s:
                self._saved = now
                self._save(real)
        if recent:
            self._report(recent, total)
        model.save(self._folder, len(real.targets))
        self._show(real)

    def _save(self, real: Experience) -> None:
        """Saves on the way: if that fails, there is an older checkpoint, and another chance."""
        try:
            self._model.save(self._folder, len(real.targets))
        except UserError as error:
            self._say(f"warning: {error}")

    def _report(self, recent: list[Losses], total: int) -> None:
        own = self._settings.algorithm
        passed = time.monotonic() - self._since
        self._since = time.monotonic()
        means = Losses(*(float(np.mean(part)) for part in zip(*recent, strict=True)))
        rate = len(recent) * own.model_batch * own.target_frames / passed
        figures = {f"model/{name}": value for name, value in means._asdict().items()}
        updates = self._model.updates
        figures |= {
            "environment_frames": self._model.seen,
            "updates": updates,
            "model/samples_per_second": rate,
            "model/learning_rate": float(self._model.rates().learning_rate),
        }
        self._metrics.append_line(to_line(figures))
        self._events.add(figures, {})
        self._complaints.about(self._metrics, self._events)
        left = (total - updates) / len(recent) * passed
        self._say(
            f"model {updates:,}/{total:,} · loss {means.total:.4f} · picture {means.picture:.4f} · "
            f"reward {means.reward:.4f} right {means.reward_right:.1%} · end right "
            f"{means.end_right:.1%} · pixels right {means.pixels_right:.2%} · {rate:,.0f} "
            f"samples/s · {left / 60:.1f} min left"
        )

    def _show(self, real: Experience) -> None:
        """Writes pictures of what the model predicts beside what was."""
        random = np.random.default_rng(self._model.updates)
        targets = random.choice(real.targets, SHOWN_ROLLOUTS)
        done = evaluating.rollouts(self._model, real, targets, SHOWN_STEPS)
        predicted, real_ones = evaluating.shown(done)
        strips = [pictures.strip(*pair) for pair in zip(predicted, real_ones, strict=True)]
        picture = np.concatenate(strips, axis=0)
        path = self._folder / f"beside-{self._model.updates:07d}.png"
        try:
            write_whole(path, pictures.png(picture))
            pictures.write_video(
                path.with_suffix(".mp4"), np.concatenate(predicted), np.concatenate(real_ones)
            )
        except OSError as error:
            self._say(f"warning: {path} could not be written ({error.strerror or error}).")
        self._events.add_picture("model/predicted_below_real", picture, self._model.updates)
