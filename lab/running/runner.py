"""Runs an experiment: starts sessions where there is room, and closes trials as they end.

All state is in files that are written before the next step depends on them. So a runner that was
killed does the same as one that has just looked elsewhere for a while: sessions that still run are
taken over, those that were killed resume from their checkpoints.
"""

import dataclasses
import time
from typing import Any

import numpy as np

from lab.results import scoring, writing
from lab.results.curves import curve_of
from lab.running.progress import Progress, Snapshot, running_of
from lab.running.room import WRITE_ERRORS, Room
from lab.running.slots import Places
from lab.trials import plan, proposing
from lab.trials.folder import (
    DONE,
    ENDED_EARLY,
    FAILED,
    OPEN,
    STUDY,
    Experiment,
    Trial,
)
from lab.trials.sessions import ENDED, RUNNING, WAITING, Session
from trainer.reporting import wording
from user_error import UserError

LOOK_EVERY_S = 0.25
STOP_WITHIN_S = 45.0


class Runner:
    """One experiment, from wherever it stands to its end."""

    def __init__(self, experiment: Experiment, places: Places, show: Progress):
        self._experiment, self._show = experiment, show
        self._places = places
        self._taken: dict[tuple[int, int], int] = {}  # the slot of each running session
        self._stop = ""
        self._random = scoring.random_play(experiment)
        self._trials = experiment.trials()
        self._told: set[int] = set()  # trials that the study knows
        self._undrawn = False  # whether graph and page lack a trial that has been closed
        self._fixed = plan.fixed(experiment)
        self._compared: set[tuple[int, int]] = set()  # trials, at percentages of their frames
        self._proposals: proposing.Proposals | None = None
        self._room = Room(experiment.folder, show.say)

    def stop(self, reason: str) -> None:
        """Asks it to end; sessions write checkpoints, and the same command goes on."""
        self._stop = self._stop or reason
        self._random.stop()

    def run(self) -> bool:
        """Runs until all is done; returns whether it came to the end."""
        self._take_over()
        begun = done = False
        while not (done or self._stop):
            try:
                if begun:
                    done = self._step() and self._finish()
                else:
                    begun = self._begin()
                self._room.found()
            except WRITE_ERRORS as error:
                self._room.wait(error)
            if not done:
                time.sleep(LOOK_EVERY_S)
        if not done:
            self._stop_sessions()
        return done

    def _begin(self) -> bool:
        """Measures random play, and opens the study of a search; False if it is stopped."""
        experiment = self._experiment
        try:
            self._measure()
            scoring.check_standard(experiment, self._fixed, self._random)
        except UserError:
            if not self._stop:  # which ends a measurement
                raise
            return False
        if experiment.mode == "search":
            path = experiment.folder / STUDY
            self._proposals = proposing.Proposals(
                path, experiment.spec.meta, experiment.spec.searched
            )
            for trial in self._proposals.restore(self._trials):
                experiment.save(trial)
        return True

    def _measure(self) -> None:
        """Measures random play; where that fails, trials will fail, too, unless all would."""
        wanted = [one.settings for one in self._fixed] or [self._experiment.spec.settings]
        failed: list[UserError] = []
        self._random.measure(wanted, self._show.say, failed.append)
        if not any(self._random.knows(one) for one in wanted):
            raise failed[0]
        for error in failed:
            self._show.say(f"Without a score, trials will fail: {error}")

    def _finish(self) -> bool:
        """Writes what came out; True, as nothing is left then."""
        self._shrink()  # what an earlier runner may have left
        result = plan.result(self._experiment, self._trials)
        writing.write_experiment(self._experiment, result=result)
        self._experiment.finish(result)  # last, as what has finished does not go on after a kill
        return True

    def _step(self) -> bool:
        """Looks at all sessions once; returns whether there is nothing left to do."""
        self._room.check()
        ended = [key for key in self._taken if self._session(*key).state() != RUNNING]
        for key in ended:  # also sessions of trials that have been closed
            del self._taken[key]
            if self._trials[key[0]].state == OPEN and self._session(*key).is_unsaved():
                name = f"t{key[0]} s{key[1]}"
                self._show.say(f"{name} could not be saved; it resumes once there is room.")
        for trial in self._trials:
            if trial.state == OPEN:
                self._look_at(trial)
            elif trial.number not in self._told:
                self._tell(trial)
        if ended:
            self._shrink()
        idle = self._start_more()
        # A panel that shows what has ended would stay while results are drawn.
        if (ended and self._show.is_live) or self._show.is_due():
            self._show.update(self._snapshot())
        return not self._write_results() and idle

    def _write_results(self) -> bool:
        """Writes the results of a closed trial that has none yet; returns whether there was one.

        Graph and page are drawn once they are due, also if nothing has been closed since.
        Only now, because drawing takes a second, in which the next session is under way.
        """
        for trial in self._trials:
            if trial.state != OPEN and not writing.is_written(self._experiment, trial):
                self._undrawn = writing.write(self._experiment, trial)
                return True
        if self._undrawn and writing.is_due(self._experiment):
            writing.write_experiment(self._experiment)
            self._undrawn = False
            return True
        return False

    def _look_at(self, trial: Trial) -> None:
        """Closes a trial whose sessions have ended, or which is to end early."""
        sessions = self._experiment.sessions(trial)
        for place, session in enumerate(sessions):
            if reason := session.never_begins():
                self._close(trial, FAILED, f"s{place}: {reason}")
                return
        states = [session.state() for session in sessions]
        for place, (session, state) in enumerate(zip(sessions, states, strict=True)):
            if state != ENDED:
                continue
            end = session.end()
            if end.good:
                continue
            failed = trial.attempts.get(str(place), 0)
            if failed < self._experiment.spec.meta.retries:
                session.forget()
                attempts = trial.attempts | {str(place): failed + 1}
                # Written first: without room for it, the attempt does not count.
                self._experiment.save(dataclasses.replace(trial, attempts=attempts))
                trial.attempts = attempts
                self._show.say(f"{trial.name} s{place} failed ({end.reason}); it runs again.")
                return
            self._close(trial, FAILED, f"s{place}: {end.reason}")
            return
        if all(state == ENDED for state in states):
            self._close(trial, DONE, "")
        elif self._proposals and self._experiment.spec.meta.early_stopping == "halving":
            self._halve(trial, sessions)

    def _halve(self, trial: Trial, every: list[Session]) -> None:
        """Ends a trial that lags behind, by the sessions that have begun: others wait for room."""
        sessions = [one for one in every if one.written() or one.newest()]
        if not sessions:
            return
        for percent in proposing.RUNGS:
            if (trial.number, percent) in self._compared:
                continue
            at = max(session.total_frames() for session in sessions) * percent / 100
            if any(one.newest().get("environment_frames", 0) < at for one in sessions):
                return
            curves = [curve_of(session.rows()) for session in sessions]
            if any(one.is_empty or one.frames[-1] < at for one in curves):
                return
            value = float(np.mean([np.interp(at, one.frames, one.returns) for one in curves]))
            if self._proposals and self._proposals.should_end(trial, percent, value):
                self._close(
                    trial,
                    ENDED_EARLY,
                    f"a mean return of {wording.number(value)} at {percent}% of its frames",
                )
                return
            self._compared.add((trial.number, percent))

    def _close(self, trial: Trial, state: str, reason: str) -> None:
        sessions = self._experiment.sessions(trial)
        if state != DONE:
            for session in sessions:
                session.stop()
        try:
            results = self._results(trial, state)
        except UserError as error:  # of random play with the trial's settings
            if self._stop:  # which ends a measurement; the trial stays open
                return
            state, reason, results = FAILED, str(error), {}
        # Written first: if that fails, the trial is still open, and is closed again.
        self._experiment.save(
            dataclasses.replace(trial, state=state, reason=reason, results=results)
        )
        trial.state, trial.reason, trial.results = state, reason, results
        self._tell(trial)
        self._show.closed(trial)

    def _tell(self, trial: Trial) -> None:
        """Brings the study up to date with a closed trial."""
        if self._proposals and self._proposals.sync(trial):
            self._experiment.save(trial)
        self._told.add(trial.number)

    def _results(self, trial: Trial, state: str) -> dict[str, Any]:
        """The figures of a trial, as far as it got."""
        if state == FAILED and not self._random.knows(trial.settings):
            return {}  # a world that raises or hangs would do so in random play, too
        sessions = self._experiment.sessions(trial)
        curves = [curve_of(session.rows()) for session in sessions]
        took = sum(session.took() for session in sessions)
        return {"took": took, **scoring.score(self._experiment, trial, curves, self._random)}

    def _shrink(self) -> None:
        """Bounds what is left on disk of closed trials, other than the best."""
        kept = plan.kept(self._experiment, self._trials)
        for trial in self._trials:
            if trial.state != OPEN and trial.number not in kept:
                for session in self._experiment.sessions(trial):
                    if session.state() != RUNNING:
                        session.shrink()

    def _start_more(self) -> bool:
        """Starts sessions while there is room; returns whether nothing is left or running."""
        while len(self._taken) < self._places.count():
            waiting = self._next()
            if waiting is None:
                return not self._taken and not any(one.state == OPEN for one in self._trials)
            trial, place, session = waiting
            slot = self._free_slot()
            self._places.start(session, slot, self._experiment.spec.meta)
            self._taken[trial.number, place] = slot
            self._show.started(trial, place)
        return False

    def _next(self) -> tuple[Trial, int, Session] | None:
        """A session that waits for its start; if there is none, one of a new trial."""
        for trial in [one for one in self._trials if one.state == OPEN]:
            for place, session in enumerate(self._experiment.sessions(trial)):
                if (trial.number, place) in self._taken or session.state() != WAITING:
                    continue
                if session.has_room():
                    return trial, place, session
        for trial in self._new_trials():
            self._experiment.save(trial)
            self._trials.append(trial)
            return trial, 0, self._experiment.sessions(trial)[0]
        return None

    def _new_trials(self) -> list[Trial]:
        if self._proposals is None:
            return self._fixed[len(self._trials) :]
        proposed = plan.propose(self._experiment, self._trials, self._proposals)
        return [proposed] if proposed else plan.finals(self._experiment, self._trials)

    def _free_slot(self) -> int:
        count = self._places.count()
        free = [place for place in range(count) if place not in self._taken.values()]
        return free[0] if free else len(self._taken) % max(1, count)

    def _session(self, number: int, place: int) -> Session:
        return self._experiment.sessions(self._trials[number])[place]

    def _take_over(self) -> None:
        """Sessions that have outlived an earlier runner keep their slots, or get free ones."""
        running = {
            (trial.number, place): self._places.of(session)
            for trial in self._trials
            for place, session in enumerate(self._experiment.sessions(trial))
            if session.state() == RUNNING
        }
        self._taken = {key: slot for key, slot in running.items() if slot is not None}
        for key in running.keys() - self._taken.keys():
            self._taken[key] = self._free_slot()

    def _stop_sessions(self) -> None:
        self._show.say(f"Stopping ({self._stop}): sessions write their checkpoints.")
        running = [self._session(*key) for key in self._taken]
        until = time.monotonic() + STOP_WITHIN_S
        while time.monotonic() < until:
            running = [session for session in running if session.state() == RUNNING]
            if not running:
                return
            for session in running:
                session.stop()
            time.sleep(LOOK_EVERY_S)

    def _snapshot(self) -> Snapshot:
        running = []
        for number, place in sorted(self._taken):
            running.append(running_of(self._trials[number], place, self._session(number, place)))
        ended = [
            key
            for trial in self._trials
            if trial.state == OPEN
            for place, session in enumerate(self._experiment.sessions(trial))
            if (key := (trial.number, place)) not in self._taken and session.state() == ENDED
        ]
        expected = len(self._fixed) or plan.expected(self._experiment, self._trials)
        return Snapshot(self._trials, running, expected, self._places.count(), len(ended))
