"""A run in its folder: what it resumes from, what it writes, and how it ends."""

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

import environments
from environments import EnvironmentSpec
from trainer import build
from trainer.learning.learner import Learner, Statistics
from trainer.machine import gpus, provenance
from trainer.programs import initial, resuming
from trainer.programs.companions import Companion, Companions, nobody
from trainer.programs.outcome import OnReport, Outcome, ignore
from trainer.reporting.metrics import Meter
from trainer.reporting.reporter import Reporter
from trainer.reporting.several import SeveralOnTerminal
from trainer.reporting.wording import FIRST_UPDATE
from trainer.settings.config import Settings
from trainer.storage.checkpoints import Checkpoint, Store
from trainer.storage.folder import FolderLock, make_writable
from trainer.storage.records import plain, read_metrics
from user_error import NotWritten

# A mean over fewer episodes is too uncertain to choose the best checkpoint by.
EPISODES_FOR_BEST = 20


class Run:
    """One training in its folder; ``after_update`` reports and saves when it is time."""

    def __init__(
        self,
        settings: Settings,
        spec: EnvironmentSpec,
        learner: Learner,
        on_report: OnReport = ignore,
        launched: float | None = None,
        companions: Companions = nobody,
        several: SeveralOnTerminal | None = None,
    ):
        """Locks the folder; changes nothing in it if its checkpoint does not fit and is refused.

        ``on_report`` gets the figures of each report. ``launched`` is when the training was
        requested, in seconds since the epoch; None means when the process started. ``several`` is
        the terminal that it shares with the runs of other agents.
        """
        self.folder = Path(settings.run_folder)
        self.outcome: Outcome | None = None  # once it has ended
        self._settings = settings
        self._spec = spec
        self._on_report = on_report
        self._trained_with = provenance.here()  # now: files may change while it trains
        self._launched = launched or psutil.Process().create_time()
        self._several = several
        make_writable(self.folder)
        self._lock = FolderLock(self.folder)
        self._companions: Sequence[Companion] = ()
        self.saved_too: list[Callable[[], None]] = []  # with every checkpoint; may raise OSError
        try:
            self._open(settings, spec, learner)
            self._companions = companions(settings, spec, self.reporter.say)
        except BaseException:
            self._lock.release()  # a notebook would keep it along with the error
            raise
        self._reported = self._signed = self._saved = time.monotonic()
        self._updated = self._warned = False
        self._begun_at = 0  # updates

    def _open(self, settings: Settings, spec: EnvironmentSpec, learner: Learner) -> None:
        resuming.check_folder(self.folder)
        self.store = Store(self.folder / "checkpoints", settings.storage.keep_checkpoints)
        warnings: list[str] = []
        self._found = self.store.newest(warnings.append)
        self.resumes = self._found is not None
        source = settings.storage.initial_weights
        starts_from = source and not self._found
        registry = settings.storage.registry
        self._initial = initial.find(source, registry, learner) if starts_from else None
        if self._initial:
            where, checkpoint = self._initial
            otherwise = "leave --initial_weights out"
            resuming.check_units(checkpoint, settings, spec, where, otherwise)
        if not self._found:
            build.check_warm_up(settings, spec)
        self._level_since = 0
        self.has_changed_level = False  # since it was stopped
        if self._found:
            began_with = resuming.check_initial(self._found[1], source, self.folder)
            # Recorded again, so that the first command still fits after one that leaves it out.
            settings = self._settings = settings.replace(initial_weights=began_with)
            self.has_changed_level = resuming.has_other_level(self._found[1], settings)
            self._level_since = resuming.level_since(self._found[1], settings)
            resuming.check_fits(self._found[1], learner, settings, spec, self.folder)
            warnings += resuming.changes(self._found[1], settings)
        # From the best checkpoint's own file: the newest may be older, or not have recorded it.
        best = self.store.best(warnings.append)
        same_level = best and not resuming.has_other_level(best, settings)
        self._best_of_other_level = best is not None and not same_level
        found = best.counters.get("best_return") if best and same_level else None
        self._best_return = -math.inf if found is None else found
        self.store.remove_leftovers()
        self.reporter = Reporter(
            self.folder,
            settings,
            {
                **({"name": settings.program.agent} if settings.program.agent else {}),
                "agent": settings.agent.agent_name,
                "level": settings.level.level_name,
                "actions": ", ".join(
                    str(kind.action_space) for kind in spec.kinds or spec.rows[:1]
                ),
                **settings.algorithm.about,
            },
            spec.measures,
            self._several,
            self._level_since,
        )
        for level in settings.level.levels:
            if remark := environments.remark(level):
                self.reporter.say(remark)
        if missed := gpus.unused():
            self.reporter.say(missed)
        for warning in warnings:
            self.reporter.say(f"warning: {warning}")

    def __enter__(self) -> "Run":
        return self

    def add(self, companion: Companion) -> None:
        """Adds what goes on beside the training."""
        self._companions = (*self._companions, companion)

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> None:
        self._end_companions()
        self.reporter.close()
        if error is not None:
            self.reporter.end_with_error(error)
        self._lock.release()

    def resume(self, learner: Learner) -> Meter:
        """Restores the newest checkpoint, if there is one; returns the run's counters."""
        levels, frames_per_step = self._settings.level.levels, self._spec.frames_per_step
        measures, bodies = [one.name for one in self._spec.measures], self._spec.bodies
        if self._initial:
            path, checkpoint = self._initial
            self._initial = None
            initial.take(checkpoint, learner)
            self.reporter.say(f"Starting with the agent of {path}.")
        if self._found is None:
            return Meter(levels, frames_per_step, {}, learner.figures, measures, bodies)
        path, checkpoint = self._found
        self._found = None
        learner.restore(resuming.arrays_of(checkpoint), checkpoint.counters["updates"])
        self._begun_at = learner.updates
        counters = resuming.counters(checkpoint, self._settings)
        meter = Meter(levels, frames_per_step, counters, learner.figures, measures, bodies)
        self.reporter.say(f"Resuming from {path} at {meter.environment_frames:,} frames.")
        return meter

    def begin(self) -> None:
        """Records the settings, which nothing has refused: it is trained with them from now on."""
        self.reporter.write_settings()

    def report_trained(self, meter: Meter) -> Outcome:
        """Reports that the run has already reached its end."""
        self.reporter.say(
            f"{self.folder} is already trained: {meter.environment_frames:,} of "
            f"{self._settings.learning.total_environment_frames:,} frames. Raise "
            "--total_environment_frames to continue, or play with --mode=test."
        )
        reported = read_metrics(self.folder)
        if not reported or reported[-1]["environment_frames"] < meter.environment_frames:
            # It was killed after its last checkpoint, before its last report.
            last = meter.report({}) | {"updates": self._begun_at}
            reported = [self.reporter.report(last, {})]
        self.reporter.make_up(reported[-1], "already trained")
        return self._outcome(reported[-1], "already trained")

    def after_update(
        self, learner: Learner, meter: Meter, statistics: Statistics, waits: dict[str, float]
    ) -> None:
        """Reports and saves when it is time."""
        if not self._updated:
            self._updated = True
            seconds = time.time() - self._launched
            self.reporter.say(f"{FIRST_UPDATE} {seconds:.1f} s after launch.")
        for companion in self._companions:
            companion.offer(learner, meter.environment_frames)
        now = time.monotonic()
        if now - self._reported >= self._settings.reporting.report_every_s:
            self._reported = now
            figures = self._figures(learner, meter, waits)
            self._warn_of_unplayed(meter)
            self._on_report(self.reporter.report(figures, statistics.samples))
        if now - self._saved >= self._settings.storage.checkpoint_every_s:
            self._saved = now
            self.save(learner, meter)

    def unrolls_arrived(self) -> None:
        """Gives a sign of life where nothing can be reported for long, as while a replay fills."""
        now = time.monotonic()
        if now - max(self._reported, self._signed) >= self._settings.reporting.report_every_s:
            self._signed = now
            self._lock.give_sign()

    def _warn_of_unplayed(self, meter: Meter) -> None:
        unplayed = meter.unplayed()
        if unplayed and not self._warned:
            self._warned = True
            levels, hint = len(self._settings.level.levels), ""
            # Actors of this process play all of them; of one level, a body may have no part.
            if levels > 1 and self._settings.program.job_name == "learner":
                hint = f" An actor's --task modulo {levels} says which it plays: is each played?"
            self.reporter.say(
                f"warning: no episode of {', '.join(unplayed)} has ended yet.{hint} Until then no "
                "checkpoint is the best, and --stop_at_return ends nothing."
            )

    def save(self, learner: Learner, meter: Meter) -> bool:
        """Writes a checkpoint, also as the best one if it is; reports a failure, returns False.

        Before the first update there is nothing to keep, and nothing that a corrected command would
        have to fit.
        """
        if learner.updates == self._begun_at and not self.saved_too:
            return True
        mean, best = meter.mean_episode_return, self._best_return
        if mean is not None and meter.recent_episodes >= EPISODES_FOR_BEST:
            best = max(best, mean)  # in this order, NaN is never the best
        is_best = best > self._best_return
        checkpoint = self._checkpoint(learner, meter, best)
        try:
            path = self.store.save(checkpoint)
            if is_best:
                if self._best_of_other_level:
                    self.store.set_best_aside()
                    self._best_of_other_level = False
                self.store.save_best(checkpoint)
                self._best_return = best
        except OSError as error:
            self.reporter.say(
                f"warning: a checkpoint could not be written to {self.store.folder} "
                f"({error.strerror or error}); earlier checkpoints are untouched."
            )
            return False
        is_whole = True
        for save in self.saved_too:
            try:
                save()
            except OSError as error:
                self.reporter.say(
                    f"warning: the checkpoint was written, but not what is kept beside it "
                    f"({error.strerror or error})."
                )
                is_whole = False
        self.reporter.note(
            f"checkpoint {path.name} written{', the best so far' if is_best else ''}"
        )
        return is_whole

    def end_with_error(self, learner: Learner, meter: Meter, error: Exception) -> None:
        """Reports the error that ended the run, and saves a checkpoint."""
        self.reporter.close()
        self.reporter.say(f"Ended by an error: {error}")
        self.save(learner, meter)

    def finish(
        self,
        learner: Learner,
        meter: Meter,
        waits: dict[str, float],
        reason: str,
        num_actors: float,
    ) -> None:
        """Writes the last report, checkpoint and picture, and prints the summary."""
        figures = self._figures(learner, meter, waits)
        saved = self.save(learner, meter)  # first: what goes on beside it may not end
        self._end_companions()
        if figures["updates_in_report"]:
            self.reporter.report(figures, {})
        whole = meter.whole_run(waits) | {"num_actors": num_actors}
        # The last report may be of a moment without an update.
        whole["time_left"] = self._time_left(meter, whole["frames_per_second"])
        self.reporter.finish(figures | whole, reason)
        self.outcome = self._outcome(figures | whole, reason)
        if figures["updates_in_report"]:
            self._on_report(self.outcome.figures)  # last, as it may raise an error
        if not saved:
            raise NotWritten(
                f"the last checkpoint could not be written to {self.store.folder} with all that is "
                "kept beside it. Make room and run the same command again: it resumes from what "
                "is there."
            )

    def _end_companions(self) -> None:
        for companion in self._companions:
            companion.close()
        self._companions = ()

    def _outcome(self, figures: dict[str, Any], reason: str) -> Outcome:
        return Outcome(
            self.folder,
            plain(figures),
            self.reporter.best_return(),
            reason,
            self._settings,
        )

    def _figures(self, learner: Learner, meter: Meter, waits: dict[str, float]) -> dict[str, Any]:
        figures = meter.report(waits)
        for companion in self._companions:
            figures |= companion.figures()
        return figures | {
            "updates": learner.updates,
            "learning_rate": learner.learning_rate,
            "time_left": self._time_left(meter, figures["frames_per_second"]),
        }

    def _time_left(self, meter: Meter, rate: float | None) -> float | None:
        left = self._settings.learning.total_environment_frames - meter.environment_frames
        # The last update may have had more frames than were left.
        return max(0.0, left / rate) if rate else None

    def _checkpoint(self, learner: Learner, meter: Meter, best: float) -> Checkpoint:
        best_return = None if best == -math.inf else best
        return Checkpoint(
            **{
                group: {name: variable.numpy() for name, variable in variables.items()}
                for group, variables in learner.groups().items()
            },
            counters={
                **meter.counters(),
                "updates": learner.updates,
                "best_return": best_return,
                "level_since": self._level_since,
                "trained_with": self._trained_with,
            },
            settings=self._settings.flat() | resuming.spaces(self._spec),
        )
