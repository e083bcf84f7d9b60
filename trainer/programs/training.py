"""The loop that trains: the same for actors in this process and for actors anywhere."""

import math
import time
from collections.abc import Callable
from typing import Protocol

import numpy as np

from algorithms.trajectory import Unroll
from trainer.learning.batches import LOOK_EVERY_S, Batch
from trainer.learning.learner import Learner
from trainer.machine.terminal import say
from trainer.programs.run import Run
from trainer.programs.stopping import StopSignal
from trainer.reporting.metrics import Meter
from trainer.reporting.pace import Pace
from trainer.settings.config import Settings
from trainer.team.equality import Equality
from trainer.team.team import ALONE, Round, Team
from user_error import UserError

# How often the first learner asks the others for their episodes. Reports and checkpoints are made
# right after, so that none counts steps whose episodes it does not know.
GATHER_EVERY_S = 0.25


class Actors(Protocol):
    """A learner's actors, wherever they are."""

    def next(self, wait_s: float) -> Batch | None:
        """The next batch; None when it is not full in time."""

    def episodes(self) -> np.ndarray:
        """The episodes that have ended since the last call, see ``metrics.ended_episodes``."""

    def publish(self, learner: Learner) -> None:
        """Lets the actors play with the learner's weights."""

    def waits(self) -> dict[str, float]:
        """Seconds waited since the start: the learner for unrolls, an actor for the learner."""

    def count(self) -> float:
        """How many they were, on average since the first one came."""


class Training:
    """Updates until the frames are spent or a learner of the team was told to stop."""

    def __init__(
        self,
        settings: Settings,
        learner: Learner,
        meter: Meter,
        actors: Actors,
        stop: StopSignal,
        run: Run | None,
        team: Team = ALONE,
        say: Callable[[str], None] = say,
    ):
        """``run`` is the folder that this learner writes; None where another one does."""
        self._settings = settings
        self._learner = learner
        self._meter = meter
        self._actors = actors
        self._stop = stop
        self._run = run
        self._team = team
        self._say = say
        self._equality = Equality(team, learner.variables, say)
        self._stopped = False
        self._starved = False  # had no batch in time, and none since
        self._idle = False  # nobody had a batch in the last round
        self._gathered = time.monotonic()
        # Of this learner alone; what is reported is the team's.
        self._pace = Pace(f"learner {team.rank}", settings.reporting.report_every_s, say)

    def go_on(self, like: Unroll | None = None) -> None:
        """Trains; leaves a checkpoint and a summary, also where an error ends the run.

        ``like`` is a batch of the shapes of those to come: the learner makes ready for them while
        the first is played.
        """
        self._actors.publish(self._learner)
        try:
            if like is not None:
                self._learner.prepare(like)
            while not self._done():
                self._round()
        except UserError:
            raise
        except Exception as error:
            if self._run:
                self._run.fail(self._learner, self._meter, error)
            raise
        self._meter.add_episodes(self._team.gather(self._actors.episodes()))
        self._equality.finish(self._learner.updates)
        if self._run:
            self._run.finish(
                self._learner, self._meter, self._waits(), self._reason(), self._actors.count()
            )

    def _reason(self) -> str:
        if not self._stopped:
            return "all frames are played"
        # Learners end together: the wish of one may come before this one was told as well.
        return self._stop.name or "another learner was told to end"

    def _done(self) -> bool:
        spent = self._meter.environment_frames >= self._settings.learning.total_environment_frames
        return spent or self._stopped

    def _round(self) -> None:
        """One update, if any learner has a batch for it."""
        batch = self._await_batch()
        learner, meter = self._learner, self._meter
        # What learners say travels with their gradients: a learner that has a batch differentiates
        # while it would wait for the others.
        share, samples = learner.share(batch and batch.unrolls)
        round, share = learner.add_up(self._says(batch), share)
        if round.gather:
            meter.add_episodes(self._team.gather(self._actors.episodes()))
        if self._team.size > 1:
            self._pace.add(int(batch.steps) * meter.frames_per_step if batch else 0)
        self._stopped, self._idle = bool(round.stop), not round.batches
        if self._stopped or self._idle:
            return
        lag = learner.updates - round.weights_version / round.batches
        left = 1.0 - meter.environment_frames / self._settings.learning.total_environment_frames
        statistics = learner.move(share, samples, left)
        self._equality.after_update(learner.updates)
        if learner.updates % self._settings.learning.publish_every_updates == 0:
            self._actors.publish(learner)
        meter.add_update(statistics.figures, bool(statistics.skipped), lag, int(round.steps))
        self._check_skipped()
        if self._run and round.gather:
            self._run.after_update(learner, meter, statistics, self._waits())

    def _waits(self) -> dict[str, float]:
        """Seconds waited since the start, by the name of the share that they become."""
        return self._actors.waits() | (
            {"team_wait_share": self._team.waited_s()} if self._team.size > 1 else {}
        )

    def _says(self, batch: Batch | None) -> Round:
        """What this learner brings into the round."""
        now = time.monotonic()
        leads = self._team.rank == 0
        gather = leads and (self._team.size == 1 or now - self._gathered >= GATHER_EVERY_S)
        if gather:
            self._gathered = now
        told = Round(stop=float(self._stop.is_set()), gather=float(gather))
        if batch is None:
            return told
        return told._replace(batches=1.0, steps=batch.steps, weights_version=batch.weights_version)

    def _await_batch(self) -> Batch | None:
        """A batch; None after ``--max_batch_wait_s`` where there are others to go on with.

        Who was late once is not waited for again until it has a batch.
        """
        if self._stop.is_set():
            return None
        patience = self._settings.team.max_batch_wait_s if self._team.size > 1 else math.inf
        if self._starved:
            patience = LOOK_EVERY_S if self._idle else 0.0
        until = time.monotonic() + patience
        batch = self._actors.next(min(patience, LOOK_EVERY_S))
        while batch is None and not self._stop.is_set() and time.monotonic() < until:
            batch = self._actors.next(min(until - time.monotonic(), LOOK_EVERY_S))
        if not self._stop.is_set() and self._starved != (batch is None):
            self._starved = batch is None
            self._say(
                f"learner {self._team.rank}: no batch of unrolls within {patience:g} s; the other "
                "learners go on without it."
                if self._starved
                else f"learner {self._team.rank}: takes part again."
            )
        return batch

    def _check_skipped(self) -> None:
        """Ends a run that only skips updates; every learner of the team comes to the same end."""
        if self._meter.skipped_in_a_row < self._settings.learning.max_skipped_updates:
            return
        if self._run is None:
            raise SystemExit(2)
        newest = next(iter(self._run.store.numbered()), None)
        raise UserError(
            f"{self._meter.skipped_in_a_row} updates in a row had losses or gradients that are not "
            f"finite and were skipped, so the run stops. The last good checkpoint is "
            f"{newest or 'none'}. Look at the level's rewards and observations, or lower "
            "--learning_rate."
        )
