"""The training loop, the same for actors in this process and in others."""

import math
import time
from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
import tensorflow as tf

from algorithms.feeding import ERROR, InStep, Replayed
from algorithms.trajectory import Unroll
from trainer import build
from trainer.learning.batches import LOOK_EVERY_S, Batch
from trainer.learning.contributions import Contribution
from trainer.learning.learner import Learner, Statistics
from trainer.machine.terminal import say
from trainer.programs.patience import Patience
from trainer.programs.run import Run
from trainer.programs.stopping import StopSignal
from trainer.reporting.metrics import RECENT_EPISODES, Meter
from trainer.reporting.pace import Pace
from trainer.settings.config import Settings
from trainer.team.equality import Equality
from trainer.team.team import ALONE, Round, Team
from user_error import UserError

# How often the first learner asks the others for their episodes. Reports and checkpoints are
# written right after, so that none counts steps without their episodes.
GATHER_EVERY_S = 0.25


class Actors(Protocol):
    """A learner's actors, wherever they run."""

    def next(self, wait_s: float) -> Batch | None:
        """The next batch; None if it is not full in time."""

    def episodes(self) -> np.ndarray:
        """The episodes that have ended since the last call, see ``metrics.ended_episodes``."""

    def publish(self, learner: Learner) -> None:
        """Gives the learner's weights to the actors."""

    def learned(self, batch: Batch, errors: np.ndarray) -> None:
        """Takes the errors [L, B] of a batch from a replay store."""

    def waits(self) -> dict[str, float]:
        """Seconds waited so far: the learner for unrolls, an actor for the learner."""

    def present(self) -> int:
        """The number of actors that are there now."""

    def count(self) -> float:
        """The mean number of actors since the first one joined."""


class NeverFinite(UserError):
    """Batches are skipped again and again: there is nothing new to save."""


class Training:
    """Updates until all frames are played or a learner of the team is asked to stop."""

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
        """``run`` writes the run's folder; None if another learner does."""
        self._settings = settings
        self._learner = learner
        self._meter = meter
        self._actors = actors
        self._stop = stop
        self._run = run
        self._team = team
        self._say = say
        self._equality = Equality(team, learner.variables, say)
        self.is_complete = False  # nothing is left to train
        self._stopped = False
        self._starved = False  # had no batch in time, and has had none since
        self._published = time.monotonic()
        self._arrived = self._published  # when this learner's last batch was there
        self._gathered = time.monotonic()
        self._feeding = settings.algorithm.feeding
        longest_s = settings.team.max_batch_wait_s if team.size > 1 else math.inf
        self._patience = Patience(longest_s, self._feeding.actors_wait)
        self._passes = build.passes_of(settings, learner, team.size)
        if run and self._passes and (remark := self._passes.remark(self._feeding)):
            say(remark)
        # How many and how long whole episodes' unrolls are shows when they are there.
        self._any_size = isinstance(self._feeding, InStep) and self._feeding.whole_episodes
        alike = self._passes is not None and self._passes.are_alike and not self._any_size
        self._in_one_call = alike and team.size == 1
        self._started = time.monotonic()
        self._begun_at = learner.updates
        # Counts this learner alone; reports count the team.
        self._pace = Pace(f"learner {team.rank}", settings.reporting.report_every_s, say)

    def run(self, like: Unroll | None = None, ended: Callable[[], None] = lambda: None) -> None:
        """Trains, then writes a checkpoint and a summary; an unexpected error also saves one.

        ``like`` is a batch of the usual shapes, for which the learner traces its graphs while
        actors play the first batch. ``ended`` is called when no more unrolls are needed.
        """
        self._actors.publish(self._learner)
        self._published = time.monotonic()
        try:
            if like is not None:
                self._prepare(like)
            while not self._done():
                self._round()
        except UserError as error:
            learned = self._learner.updates > self._begun_at
            if self._run and learned and not isinstance(error, NeverFinite):
                self._run.save(self._learner, self._meter)
            raise
        except tf.errors.ResourceExhaustedError:
            if self._run:
                self._run.save(self._learner, self._meter)
            raise UserError(
                "there is too little memory for updates of "
                f"--batch_size={self._settings.learning.batch_size} and "
                f"--unroll_length={self._settings.actors.unroll_length}: lower one of them, or "
                "choose a smaller agent."
            ) from None
        except Exception as error:
            if self._run:
                self._run.end_with_error(self._learner, self._meter, error)
            raise
        ended()
        self._meter.add_episodes(self._team.gather(self._actors.episodes()))
        self._equality.finish(self._learner.updates)
        if self._run:
            self._run.finish(
                self._learner, self._meter, self._waits(), self._reason(), self._actors.count()
            )

    def _reason(self) -> str:
        if not self._stopped:
            return "all frames are played"
        # Learners end together: another may have been asked to stop before this one.
        return self._stop.name or "another learner was asked to stop"

    def _done(self) -> bool:
        total = self._settings.learning.total_environment_frames
        self.is_complete = self.is_complete or self._meter.environment_frames >= total
        return self.is_complete or self._stopped

    def _prepare(self, like: Unroll) -> None:
        """Makes the graphs that rounds will call, and no others."""
        if self._in_one_call:
            assert self._passes
            self._learner.prepare_alone(like, self._passes)
            return
        batch = None if self._any_size else Batch(like, 0, 0.0)
        contribution, _ = next(self._contributions(batch))
        self._learner.prepare(contribution)

    def _round(self) -> None:
        """One update, or all of a rollout, if any learner has a batch for it."""
        batch = self._await_batch()
        learner, meter = self._learner, self._meter
        before = learner.updates
        learner.algorithm.advance(self._left())
        done = self._updates_in_one_call(batch) if self._in_one_call else self._updates(batch)
        if done is None:
            return
        statistics, gather = done
        every = self._settings.learning.publish_every_updates
        if self._feeding.actors_wait or learner.updates // every > before // every:
            self._actors.publish(learner)
            self._published = time.monotonic()
        if self._run and gather:
            self._run.after_update(learner, meter, statistics, self._waits())

    def _updates(self, batch: Batch | None) -> tuple[Statistics, bool] | None:
        """Returns the last update's figures and whether to report; None if there was none."""
        learner, statistics = self._learner, None
        lag, gather, left = 0.0, False, 0.0
        # Messages travel with gradients: instead of waiting for the others' messages first, a
        # learner with a batch computes its gradients.
        for mine, samples in self._contributions(batch):
            begins = statistics is None
            message = self._message(batch) if begins else Round(batches=float(batch is not None))
            round, contribution = learner.add_up(message, mine)
            if begins:
                if not self._goes_on(round, batch):
                    return None
                gather, lag, left = self._at_begin(round)
            statistics = learner.move(contribution, samples, left)
            self._equality.after_update(learner.updates)
            self._count(statistics, lag, int(round.steps), begins)
            if batch and isinstance(self._feeding, Replayed):
                self._actors.learned(batch, np.asarray(statistics.samples[ERROR]))
            if learner.algorithm.is_enough(statistics.figures):
                break
        return (statistics, gather) if statistics else None

    def _updates_in_one_call(self, batch: Batch | None) -> tuple[Statistics, bool] | None:
        """The same for all updates of a batch, as no other learner has to be waited for."""
        learner, round = self._learner, self._message(batch)
        if not self._goes_on(round, batch) or batch is None:
            return None
        gather, lag, left = self._at_begin(round)
        assert self._passes
        done = learner.learn_alone(batch.unrolls, self._passes, left)
        for number, statistics in enumerate(done):
            begins = not number or self._passes.drawn  # drawn updates have a batch each
            self._count(statistics, lag, 0 if number else int(round.steps), begins)
        if self._passes.drawn:
            errors = [one.samples[ERROR] for one in done]
            self._actors.learned(batch, np.concatenate(errors, axis=1))
        return done[-1], gather

    def _at_begin(self, round: Round) -> tuple[bool, float, float]:
        """Whether to report after a round's updates, the policy lag, what is left of the run."""
        lag = self._learner.updates - round.weights_version / round.batches
        return bool(round.gather), lag, self._left()

    def _left(self) -> float:
        """The fraction of the run that is still to come."""
        total = self._settings.learning.total_environment_frames
        return 1.0 - self._meter.environment_frames / total

    def _count(self, statistics: Statistics, lag: float, steps: int, begins: bool) -> None:
        """Counts an update, with new agent steps; ``begins``: the first one of its batch."""
        self._meter.add_update(statistics.figures, statistics.skipped, lag, steps, begins)
        self._check_skipped()

    def _contributions(self, batch: Batch | None) -> Iterator[tuple[Contribution, list[tf.Tensor]]]:
        """What a batch adds to each update of a round, and samples for histograms."""
        learner, unrolls = self._learner, batch and batch.unrolls
        if self._passes is None or self._passes.drawn:
            computed = batch and batch.computed
            yield computed or learner.contribution(unrolls)
            return
        pieces, prepared = learner.rollout(unrolls, self._passes.piece_length)
        count = 0 if pieces is None else int(pieces.level.shape[0])
        for indices in self._passes.orders(count, learner.updates):
            yield learner.contribution.of_some(pieces, prepared, indices)

    def _goes_on(self, round: Round, batch: Batch | None) -> bool:
        """Takes the messages of all learners; returns whether there is something to learn."""
        if round.gather:
            self._meter.add_episodes(self._team.gather(self._actors.episodes()))
        if self._team.size > 1:
            self._pace.add(int(batch.steps) * self._meter.frames_per_step if batch else 0)
        self._stopped = bool(round.stop)
        self._patience.after(round, batch is not None)
        self.is_complete = self.is_complete or bool(round.reached)
        return bool(round.batches) and not self._stopped

    def _waits(self) -> dict[str, float]:
        """Seconds waited so far, by the names of the figures computed from them."""
        return self._actors.waits() | (
            {"team_wait_share": self._team.waited_s()} if self._team.size > 1 else {}
        )

    def _message(self, batch: Batch | None) -> Round:
        """This learner's message for the round."""
        now = time.monotonic()
        leads = self._team.rank == 0
        gather = leads and (self._team.size == 1 or now - self._gathered >= GATHER_EVERY_S)
        if gather:
            self._gathered = now
        reached = leads and self._is_enough()
        stop = reached or self._stop.is_set()
        message = Round(stop=float(stop), reached=float(reached), gather=float(gather))
        if batch is None:
            return message
        return message._replace(
            batches=1.0,
            steps=batch.steps,
            weights_version=batch.weights_version,
            played_s=max(0.0, self._arrived - self._published),
        )

    def _is_enough(self) -> bool:
        """Whether the user wants no more than this; only the first learner knows all episodes."""
        learning, meter = self._settings.learning, self._meter
        wanted, mean = learning.stop_at_return, meter.mean_episode_return
        known = meter.recent_episodes >= RECENT_EPISODES
        if wanted is not None and known and mean is not None and mean >= wanted:
            self._stop.request(f"the mean return is {mean:g} (--stop_at_return={wanted:g})")
            return True
        if learning.stop_after_s and time.monotonic() - self._started >= learning.stop_after_s:
            self._stop.request(f"{learning.stop_after_s:g} s have passed (--stop_after_s)")
            return True
        return False

    def _await_batch(self) -> Batch | None:
        """The next batch; None if it is not there in time, and there are other learners."""
        if self._stop.is_set():
            return None
        patience = self._patience.of_next(self._actors.present(), self._starved)
        until = time.monotonic() + patience
        batch = self._actors.next(min(patience, LOOK_EVERY_S))
        while batch is None and not self._stop.is_set() and time.monotonic() < until:
            if self._team.size == 1 and self._is_enough():
                return None
            batch = self._actors.next(min(until - time.monotonic(), LOOK_EVERY_S))
        if batch:
            self._arrived = time.monotonic()
        if not self._stop.is_set() and self._starved != (batch is None):
            self._starved = batch is None
            self._say(
                f"learner {self._team.rank}: no batch of unrolls within {patience:g} s; the other "
                "learners continue without it."
                if self._starved
                else f"learner {self._team.rank}: takes part again."
            )
        return batch

    def _check_skipped(self) -> None:
        """Ends a run that only skips updates; all learners of a team end at the same update."""
        if self._meter.skipped_in_a_row < self._settings.learning.max_skipped_updates:
            return
        if self._run is None:
            raise SystemExit(2)
        newest = next(iter(self._run.store.numbered()), None)
        raise NeverFinite(
            f"{self._meter.skipped_in_a_row} batches in a row had losses or gradients that were "
            f"not finite and were skipped, so the run stops. The last good checkpoint is "
            f"{newest or 'none'}. Check the level's rewards and observations, or lower "
            "--learning_rate."
        )
