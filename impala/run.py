"""A run's folder: what it resumes from, what it writes as it goes, and how it ends."""

import dataclasses
import math
import tempfile
import time
from pathlib import Path
from typing import Any

from environments import EnvironmentSpec
from impala.checkpoints import Checkpoint, Store
from impala.config import Settings
from impala.learner import Learner, Statistics
from impala.metrics import Meter, samples
from impala.reporting import Reporter
from user_error import UserError

# A return over fewer episodes says too little to call its checkpoint the best.
EPISODES_FOR_BEST = 20


class Run:
    """One training in its folder; ``after_update`` reports and saves when it is time."""

    def __init__(self, settings: Settings, agent_name: str, spec: EnvironmentSpec):
        self.folder = Path(settings.run_folder)
        self._settings = dataclasses.replace(settings, agent_name=agent_name)
        self._spec = spec
        make_writable(self.folder)
        self.store = Store(self.folder / "checkpoints", settings.keep_checkpoints)
        self.reporter = Reporter(
            self.folder,
            self._settings,
            {
                "agent": agent_name,
                "level": settings.level_name,
                "actions": str(spec.action_space),
            },
        )
        self._best_return = -math.inf
        self._reported = self._saved = time.monotonic()

    def resume(self, learner: Learner) -> Meter:
        """Puts what the newest checkpoint holds in place, if there is one."""
        found = self.store.newest(self.reporter.say)
        if found is None:
            return Meter(self._settings.levels, self._spec.frames_per_step, {})
        path, checkpoint = found
        check_fits(checkpoint, self._settings, self._spec, self.folder)
        learner.restore(checkpoint)
        best = checkpoint.counters["best_return"]
        self._best_return = -math.inf if best is None else best
        meter = Meter(self._settings.levels, self._spec.frames_per_step, checkpoint.counters)
        self.reporter.say(f"Going on from {path} at {meter.environment_frames:,} frames.")
        return meter

    def say_trained(self, meter: Meter) -> None:
        """Tells that there is nothing left to do."""
        self.reporter.say(
            f"{self.folder} is trained: {meter.environment_frames:,} of "
            f"{self._settings.total_environment_frames:,} frames. Raise "
            "--total_environment_frames to go on, or play with --mode=test."
        )
        self.reporter.close()

    def after_update(
        self, learner: Learner, meter: Meter, statistics: Statistics, waits: dict[str, float]
    ) -> None:
        """Stops a run that only skips updates; reports and saves when it is time."""
        self._watch_skipped(meter)
        now = time.monotonic()
        if now - self._reported >= self._settings.report_every_s:
            self._reported = now
            self.reporter.report(self._figures(learner, meter, waits), samples(statistics))
        if now - self._saved >= self._settings.checkpoint_every_s:
            self._saved = now
            self.save(learner, meter)

    def save(self, learner: Learner, meter: Meter) -> bool:
        """Writes a checkpoint, and the best one if it is; a failure is told and survived."""
        mean = meter.mean_episode_return
        is_best = False
        if mean is not None and meter.recent_episodes >= EPISODES_FOR_BEST:
            is_best = mean > self._best_return
            self._best_return = max(mean, self._best_return)
        checkpoint = self._checkpoint(learner, meter)
        try:
            path = self.store.save(checkpoint)
            if is_best:
                self.store.save_best(checkpoint)
        except OSError as error:
            self.reporter.say(
                f"warning: a checkpoint could not be written to {self.store.folder} "
                f"({error.strerror or error}); those before it are untouched."
            )
            return False
        self.reporter.note(
            f"checkpoint {path.name} written{', the best so far' if is_best else ''}"
        )
        return True

    def finish(self, learner: Learner, meter: Meter, waits: dict[str, float], reason: str) -> None:
        """The last report, checkpoint and picture, and the summary."""
        figures = self._figures(learner, meter, waits)
        if figures["updates_in_report"]:
            self.reporter.report(figures, {})
        saved = self.save(learner, meter)
        self.reporter.finish(figures | meter.whole_run(waits), reason)
        if not saved:
            raise UserError(
                f"the last checkpoint could not be written to {self.store.folder}. Make room and "
                "give the same command again: it goes on from the checkpoint before."
            )

    def _watch_skipped(self, meter: Meter) -> None:
        if meter.skipped_in_a_row < self._settings.max_skipped_updates:
            return
        newest = next(iter(self.store.numbered()), None)
        raise UserError(
            f"{meter.skipped_in_a_row} updates in a row had losses or gradients that are not "
            f"finite and were skipped, so the run stops. The last good checkpoint is "
            f"{newest or 'none'}. Look at the level's rewards and observations, or lower "
            "--learning_rate."
        )

    def _figures(self, learner: Learner, meter: Meter, waits: dict[str, float]) -> dict[str, Any]:
        figures = meter.report(waits)
        left = self._settings.total_environment_frames - meter.environment_frames
        rate = figures["frames_per_second"]
        return figures | {
            "updates": learner.updates,
            "learning_rate": learner.learning_rate,
            "time_left": left / rate if rate else None,
        }

    def _checkpoint(self, learner: Learner, meter: Meter) -> Checkpoint:
        best = None if self._best_return == -math.inf else self._best_return
        return Checkpoint(
            weights=[weight.numpy() for weight in learner.weights],
            optimizer=[slot.numpy() for slot in learner.slots],
            counters=meter.counters() | {"updates": learner.updates, "best_return": best},
            settings=dataclasses.asdict(self._settings) | spaces(self._spec),
        )


def spaces(spec: EnvironmentSpec) -> dict[str, str]:
    """What of a level decides the shapes of weights, in words that can be compared."""
    seen = spec.observation_space
    return {
        "observations": f"{list(seen.shape)} {seen.dtype}, {spec.frame_stack} stacked",
        "actions": str(spec.action_space),
    }


def check_fits(
    checkpoint: Checkpoint, settings: Settings, spec: EnvironmentSpec, where: Path
) -> None:
    """Refuses to go on from a checkpoint whose weights cannot be used with these settings."""
    now = dataclasses.asdict(settings) | spaces(spec)
    flags = {
        "agent_name": "agent_name",
        "observations": "level_name",
        "actions": "level_name",
        "optimizer": "optimizer",
        "popart": "popart",
    }
    for name, flag in flags.items():
        before = checkpoint.settings[name]
        if str(now[name]).lower() != str(before).lower():
            what = "" if name == flag else f" ({name} {now[name]} instead of {before})"
            raise UserError(
                f"--{flag}={now[flag]}{what} does not fit the run in {where}, which was trained "
                f"with --{flag}={checkpoint.settings[flag]}. Give that, or another --logdir."
            )


def make_writable(folder: Path) -> None:
    """Makes the folder, or says why nothing can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UserError(
            f"--logdir={folder} cannot be written ({error.strerror}). Name another folder."
        ) from None
