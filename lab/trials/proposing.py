"""Proposes trials with Optuna; its study is a SQLite file, so a killed search can go on."""

import contextlib
import logging
import sqlite3
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import TrialState

from lab.specs import search_space
from lab.specs.meta import Meta
from lab.specs.search_space import GRID, LEAST_CHANCE, Searched
from lab.trials.folder import DONE, ENDED_EARLY, FAILED, OPEN, Trial

# A trial's returns are compared at these percentages of its frames.
RUNGS = (25, 50)
MOST_SEEDS = 2**31
NAME = "search"  # of the study in its file


class Proposals:
    """The study of one search."""

    def __init__(self, path: Path, meta: Meta, searched: Sequence[Searched]):
        optuna.logging.set_verbosity(logging.ERROR)
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        self._meta, self._searched = meta, tuple(searched)
        self._grid = search_space.Grid.of(self._searched, meta.search == "grid")
        self._study = _study(path)
        self._distributions = {one.name: distribution(one) for one in self._searched}

    @property
    def total(self) -> int:
        """How many trials the search has."""
        return total(self._meta, self._searched)

    def propose(
        self, place: int, earlier: Sequence[Mapping[str, Any]] = ()
    ) -> tuple[int, dict[str, Any], dict[str, Any]]:
        """The trial at this place: its number in the study, what it drew, and its settings.

        Each draw has a seed of its own: a search that goes on draws nothing twice. ``earlier`` is
        what the trials at the places before have drawn: each draw is for every point of the grid.
        """
        draw, point = divmod(place, self._grid.size)
        fixed = self._grid.point(point)
        if point and earlier:
            fixed = dict(earlier[place - point]) | fixed
        seed = (self._meta.seed * 1_000_003 + draw) % MOST_SEEDS
        sampler = _sampler(self._meta, seed)
        if fixed:
            sampler = optuna.samplers.PartialFixedSampler(fixed, sampler)
        self._study.sampler = sampler
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trial = self._study.ask(fixed_distributions=self._distributions)
        return trial.number, dict(trial.params), self.values(trial.params)

    def values(self, drawn: dict[str, Any]) -> dict[str, Any]:
        """The settings for what was drawn."""
        return {one.name: one.value(drawn[one.name]) for one in self._searched}

    def sync(self, trial: Trial) -> bool:
        """Brings the study up to date with a trial; returns whether its record has changed.

        A trial that was retried after a failure is added as another one, as Optuna keeps ends.
        """
        if trial.proposal is None or trial.state == OPEN:
            return False
        value = trial.results.get("objective")
        known = self._study.get_trials(deepcopy=False)[trial.proposal]
        if known.state == TrialState.RUNNING:
            if trial.state == ENDED_EARLY:  # some of its sessions may not have begun
                self._study.tell(trial.proposal, state=TrialState.PRUNED)
            elif trial.state == FAILED or value is None:
                self._study.tell(trial.proposal, state=TrialState.FAIL)
            else:
                self._study.tell(trial.proposal, value)
            return False
        if known.state == TrialState.FAIL and trial.state == DONE and value is not None:
            created = optuna.trial.create_trial(
                params=trial.drawn, distributions=self._distributions, value=value
            )
            self._study.add_trial(created)
            trial.proposal = len(self._study.get_trials(deepcopy=False)) - 1
            return True
        return False

    def restore(self, trials: Sequence[Trial]) -> list[Trial]:
        """Adds trials that the study lacks, such as an older copy of it; returns those.

        They count as running there until ``sync``, and may have other numbers than before.
        """
        count = len(self._study.get_trials(deepcopy=False))
        known = [one for one in trials if one.proposal is not None and one.proposal >= count]
        # In this order none gets a number that one after it has still.
        for number, trial in enumerate(sorted(known, key=lambda one: one.proposal or 0), count):
            created = optuna.trial.create_trial(
                state=TrialState.RUNNING, params=trial.drawn, distributions=self._distributions
            )
            self._study.add_trial(created)
            trial.proposal = number
        return known

    def should_end(self, trial: Trial, percent: int, value: float) -> bool:
        """Whether a trial is not among the better half that has come so far.

        It is compared once: after a kill the study says the same again.
        """
        if trial.proposal is None or percent not in RUNGS:
            return False
        known = self._study.get_trials(deepcopy=False)[trial.proposal]
        if known.state != TrialState.RUNNING:  # it had failed, and is tried again
            return False
        verdict = f"ends at {percent}%"
        if verdict in known.user_attrs:
            return known.user_attrs[verdict]
        running = optuna.trial.Trial(self._study, known._trial_id)
        if percent not in known.intermediate_values:
            running.report(value, percent)
        every = [one.intermediate_values for one in self._study.get_trials(deepcopy=False)]
        values = sorted((one[percent] for one in every if percent in one), reverse=True)
        own = known.intermediate_values.get(percent, value)
        ends = own < values[max(len(values) // 2, 1) - 1]
        running.set_user_attr(verdict, ends)
        return ends


def _study(path: Path) -> optuna.Study:
    """The study in this file, which is made if it is not there."""
    if path.exists():
        # An earlier version that was killed as it made the file left one without a study.
        with contextlib.suppress(KeyError):
            return optuna.load_study(storage=_opened(path), study_name=NAME)
    _make(path)
    return optuna.load_study(storage=_opened(path), study_name=NAME)


def _make(path: Path) -> None:
    """Makes the study's file whole or not at all: a kill halfway leaves tables without rules."""
    begun = path.with_name(f"{path.name}.new")
    for leftover in (begun, begun.with_name(f"{begun.name}-journal")):
        leftover.unlink(missing_ok=True)
    storage = _opened(begun)
    optuna.create_study(storage=storage, study_name=NAME, direction="maximize")
    storage.remove_session()
    storage.engine.dispose()
    begun.replace(path)


def _opened(path: Path) -> optuna.storages.RDBStorage:
    """The study's file; in a URL, Optuna would fill in braces, and SQLAlchemy end it at a ?."""
    creator = {"creator": lambda: sqlite3.connect(path, check_same_thread=False)}
    return optuna.storages.RDBStorage("sqlite:///a_file", creator)


def total(meta: Meta, searched: Sequence[Searched]) -> int:
    """How many trials a search has: its draws, each with every point of its grid."""
    points = search_space.Grid.of(searched, meta.search == "grid").size
    drawn = [one for one in searched if one.kind != GRID and meta.search != "grid"]
    return points * (meta.trials if drawn else 1)


def distribution(searched: Searched) -> BaseDistribution:
    """What Optuna draws from; a normal value as its chance, which all samplers can draw."""
    if searched.kind in search_space.LISTS:
        return CategoricalDistribution(searched.values)
    if searched.kind == "normal":
        return FloatDistribution(LEAST_CHANCE, 1 - LEAST_CHANCE)
    low, high = searched.values
    log = searched.kind == "loguniform"
    if searched.kind == "randint" or searched.whole:
        return IntDistribution(int(low), int(high), log=log)
    return FloatDistribution(low, high, log=log)


def _sampler(meta: Meta, seed: int) -> optuna.samplers.BaseSampler:
    if meta.search == "tpe":
        return optuna.samplers.TPESampler(seed=seed, n_startup_trials=max(4, meta.trials // 4))
    if meta.search == "evolutionary":
        return optuna.samplers.NSGAIISampler(seed=seed, population_size=meta.population)
    if meta.search == "cma":
        return optuna.samplers.CmaEsSampler(seed=seed, n_startup_trials=max(1, meta.trials // 4))
    return optuna.samplers.RandomSampler(seed=seed)
