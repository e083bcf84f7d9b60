"""``--algorithm=simple``: collect, train the model, train the policy in it, and again.

What the files of a run hold is its state. Each phase ends at a total, so a run that was killed
goes through the same list of phases, passes over what is reached and goes on where it was.
"""

import contextlib
import shlex
import sys
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from environments import EnvironmentSpec
from trainer import build
from trainer.machine.launching import typed
from trainer.programs.stopping import StopSignal
from trainer.settings import config
from trainer.settings.config import Settings
from trainer.storage.checkpoints import Checkpoint
from trainer.storage.folder import FolderLock, make_writable, writing
from trainer.storage.played import Stored, check_looks, looks_of, read_all, store
from trainer.storage.records import write_whole
from trainer.trained import alongside
from user_error import UserError
from world_models import schedule
from world_models.schedule import Phase
from world_models.training import (
    bundles,
    estimate,
    evaluating,
    folders,
    helping,
    playing,
    world_model,
)
from world_models.training.experience import Experience, KeptStarts
from world_models.training.model_phase import ModelPhase
from world_models.training.policy_phase import check_policy, policy_steps, train_policy
from world_models.training.policy_settings import check_level, check_program
from world_models.training.reports import Reports
from world_models.training.world_model import WorldModel, action_count

# What to do after the phase that was asked for; the run's folder follows.
NEXT = {
    "all": "Play the real game with the policy: --mode=test",
    "collect": "Train a model of this play: --phase=model",
    "model": "See how right it is: PYTHON -m world_models.evaluate --subjects=model",
    "policy": "Play the real game with the policy: --mode=test",
}

BY_RUN = ("chance", "the policy")  # who plays for a run; people may have recorded play, too


def train(settings: Settings, given: Collection[str] = ()) -> None:
    """Runs the phases; resumes the run in the logdir.

    Settings that were not ``given`` may come from ``--model_bundle``.
    """
    settings = bundles.completed(settings, given)
    check_program(settings)
    team, pieces = helping.join(settings)
    spec = build.level_spec(settings)
    check_level(settings, spec)
    if team.rank:
        helping.help_first(settings, spec, team, pieces)
        return
    alongside.check(settings)
    where = folders.of(settings)
    make_writable(where.run)
    lock = FolderLock(where.run)
    try:
        where.check(settings.program.algorithm)
        make_writable(where.model)
        with contextlib.ExitStack() as held:
            helpers = helping.Helpers(team)
            Loop(settings, spec, held, pieces, helpers).run()
            helpers.end()
    finally:
        lock.release()


class Loop:
    """One run."""

    def __init__(
        self,
        settings: Settings,
        spec: EnvironmentSpec,
        held: contextlib.ExitStack,
        pieces: int,
        helpers: helping.Helpers,
    ):
        """``held`` closes what is opened on the way; the model computes ``pieces`` side by side."""
        self._pieces, self._helpers = pieces, helpers
        self._settings, self._spec, self._held = settings, spec, held
        self._folders = folders.of(settings)
        self._stop = StopSignal()
        self._reports = Reports(self._folders, spec.frames_per_step)
        self._say = self._reports.say
        self._stored = read_all(self._folders.play, settings.level.level_name)
        self._looks = looks_of(build.looks(settings))
        check_looks(self._stored, spec, self._looks, self._folders.play)
        self._model: WorldModel | None = None
        self._bundle: Checkpoint | None = None  # that the model was taken from
        self._kept: KeptStarts | None = None  # of dreams, if the model's file brought some
        self._games: playing.Games | None = None

    def run(self) -> None:
        """Goes through the phases."""
        settings, folder = self._settings, self._folders.run
        # A run that this command does not fit stays as it was.
        self._restored()
        check_policy(settings, self._spec)
        phases = schedule.phases(settings.algorithm)
        self._check_input(phases[0])
        with writing(folder):
            write_whole(folder / "settings.json", config.to_json(settings).encode() + b"\n")
        if self._bundle:
            bundles.install(self._bundle, self._folders)
        self._folders.link_checkpoints()
        self._say(" · ".join(f"{k} {n:,}" for k, n in schedule.totals(settings.algorithm).items()))
        self._estimate(phases)
        run: dict[str, Callable[[Phase], None]] = {
            "collect": self._collect,
            "model": self._train_model,
            "policy": self._train_policy,
        }
        for phase in phases:
            run[phase.kind](phase)
            if self._stop.is_set():
                self._say(f"Stopped in {phase.kind} of epoch {phase.epoch}: {self._stop.name}.")
                self._say("The same command goes on from here.")
                return
        then = NEXT[settings.algorithm.phase].replace("PYTHON", typed(sys.executable))
        self._say(f"Done. {then} {shlex.quote(f'--logdir={folder}')}")

    def _check_input(self, first: Phase) -> None:
        """Refuses a phase that is run alone and lacks what comes before it."""
        model, has_play = self._restored(), bool(self._stored)
        if first.kind == "policy" and policy_steps(self._settings, self._spec) < first.total:
            if not model.updates:
                raise UserError(
                    f"{self._folders.model} has no model to train a policy in; run "
                    "--phase=collect and --phase=model first."
                )
            has_play |= self._kept is not None
        elif first.kind != "model" or model.updates >= model.before + first.total:
            return
        if not has_play:
            raise UserError(
                f"{self._folders.play} has no real play to learn from; run --phase=collect first."
            )

    def _estimate(self, phases: Sequence[Phase]) -> None:
        """Says what is left to do and how long it will take."""
        done, model = policy_steps(self._settings, self._spec), self._restored()
        amounts = estimate.left(phases, model, self._steps, done)
        each = estimate.measured(self._settings, self._spec, model, amounts)
        each = each._replace(model=each.model / self._helpers.team.size)
        self._say(estimate.line(amounts, each))

    @property
    def _steps(self) -> int:
        return sum(stored.part.steps for stored in self._stored)

    def _restored(self) -> WorldModel:
        """The model as far as it has been trained."""
        if self._model is None:
            self._model = WorldModel(self._settings, self._spec, self._pieces)
            world_model.store(self._folders.model).remove_leftovers()
            found = world_model.newest(self._folders.model, self._reports.warn)
            where, given = self._folders.model, self._settings.algorithm.model_bundle
            if given and not found:
                settings = self._settings
                where, theirs = bundles.find(given, settings.storage.registry, settings.flat())
                self._bundle = found = bundles.begun(theirs)
                updates = found.counters["updates"]
                self._say(
                    f"Starting with the world model of {where}; its {updates:,} updates do not "
                    "count as this run's."
                )
            if found:
                self._model.restore(found, where)
                self._kept = KeptStarts.of(found)
        return self._model

    def _experience(self, stored: Sequence[Stored] | None = None) -> Experience:
        parts = [one.part for one in (self._stored if stored is None else stored)]
        return Experience(parts, self._settings.algorithm.model_frames)

    def _starts(self) -> Experience | KeptStarts:
        """What dreams start from: own real play, or what a model's file brought."""
        return self._kept if self._kept and not self._stored else self._experience()

    def _collect(self, phase: Phase) -> None:
        """Plays the real game until the total, and reports what no report has counted yet."""
        counted = self._reports.counted(self._own())
        if self._steps < phase.total:
            self._play(phase)
        own = self._own()
        new = [one for one in own[counted:] if one.about["epoch"] == phase.epoch]
        if new:
            self._report(phase, new, len(own))

    def _own(self) -> list[Stored]:
        """The parts of real play that this run has made itself."""
        return [one for one in self._stored if one.about.get("by") in BY_RUN]

    def _play(self, phase: Phase) -> None:
        """Plays and stores a part at a time."""
        settings = self._settings
        count = settings.algorithm.real_envs
        seed = int(
            np.random.SeedSequence([settings.program.seed, self._steps]).generate_state(1)[0]
        )
        choose = playing.by_policy(settings, count, seed)
        by = BY_RUN[choose is not None]
        self._say(f"collect {phase.epoch}: {phase.total - self._steps:,} real steps by {by}")
        choose = choose or playing.at_random(action_count(self._spec), seed)
        if self._games is None:
            game = playing.real_game(settings, count, self._steps)
            self._games = playing.Games(self._held.enter_context(game))
        with self._stop:
            while self._steps < phase.total and not self._stop.is_set():
                part, ended = self._games.play(choose, phase.total - self._steps, self._stop.is_set)
                if not part.steps:  # no game is there: remotes may be away
                    continue
                cut = self._games.unfinished()
                about = {
                    "level_name": settings.level.level_name,
                    "looks": self._looks,
                    "epoch": phase.epoch,
                    "by": by,
                    "returns": [episode.raw_return for episode in ended],
                    "lengths": [episode.length for episode in ended],
                    "unfinished_returns": [game.raw_return for game in cut],
                    "unfinished_lengths": [game.length for game in cut],
                }
                stored = Stored(part, about)
                store(self._folders.play, stored)
                self._stored.append(stored)

    def _report(self, phase: Phase, new: list[Stored], counted: int) -> None:
        """Reports on these parts, with which ``counted`` are in reports."""
        model, of_model = self._restored(), dict[str, Any]()
        if model.updates and not self._stop.is_set():
            played = self._experience(new)
            # So little play may have no step that is preceded by all pictures that the model sees.
            if len(played.targets):
                of_model, _ = evaluating.evaluate(model, played, self._settings.program.seed)
        figures = self._reports.of_play(phase, new, self._steps, of_model, counted)
        steps = policy_steps(self._settings, self._spec)
        if steps:
            self._reports.remark(steps, model.updates, figures)

    def _train_model(self, phase: Phase) -> None:
        """Trains the model on all real play."""
        model = self._restored()
        total = model.before + phase.total
        if model.updates >= total:
            return
        self._say(f"model {phase.epoch}: {total - model.updates:,} updates")
        with self._reports.timed("model_seconds"):
            real, team = self._experience(), self._helpers.team
            with self._stop:
                self._helpers.begin(model, self._stored, total)
                ModelPhase(self._settings, self._folders, model, self._say, team).run(
                    real, total, self._stop.is_set
                )
        if model.updates < total:
            self._stop.request("another learner was asked to stop")

    def _train_policy(self, phase: Phase) -> None:
        """Trains the policy in the model."""
        if policy_steps(self._settings, self._spec) >= phase.total:
            return
        self._say(f"policy {phase.epoch}: until {phase.total:,} steps in the model")
        with self._reports.timed("policy_seconds"):
            figures = train_policy(
                self._settings,
                self._spec,
                self._restored(),
                self._starts(),
                phase.total,
                self._stop,
                alongside.start,
            )
        self._reports.keep({"dreamed_return": figures.get("mean_episode_return")})
        steps = policy_steps(self._settings, self._spec)
        if steps:
            self._reports.remark(steps, self._restored().updates)
