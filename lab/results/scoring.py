"""The figures of a trial, from the reports of its sessions and the standards of its levels."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from lab.results import fitness, standards
from lab.results.curves import Curve
from lab.results.random_play import RandomPlay
from lab.specs.meta import Standard
from lab.trials.folder import Experiment, Trial
from trainer.settings.config import Settings
from user_error import UserError


def random_play(experiment: Experiment) -> RandomPlay:
    """Random play, as measured for this experiment and kept in its folder."""
    return RandomPlay(experiment.folder / "random_play.json")


def score(
    experiment: Experiment, trial: Trial, curves: Sequence[Curve], random: RandomPlay
) -> dict[str, Any]:
    """All figures of a trial."""
    level = level_of(experiment, trial, random)
    name = experiment.spec.meta.objective
    if name == "auto":
        name = "fitness" if level.has_standard else "strength"
    return {"objective_name": name, **fitness.trial(curves, level, name)}


def level_of(experiment: Experiment, trial: Trial, random: RandomPlay) -> fitness.Level:
    """What returns mean on the levels of a trial, with its settings."""
    known = random.returns(trial.settings)
    mean = float(np.mean(list(known.values())))
    return standards.level_of(list(known), mean, experiment.spec.meta.standard)


def check_standard(experiment: Experiment, trials: Sequence[Trial], random: RandomPlay) -> None:
    """Refuses standards that reward bad play, and the fitness as objective where there is none."""
    spec = experiment.spec
    given = spec.meta.standard.solved_return
    for trial in trials or [Trial(0, "", spec.settings, [])]:
        if not random.knows(trial.settings):
            continue  # it fails
        level = level_of(experiment, trial, random)
        if given is not None and level.scale is None:
            raise UserError(
                f"{spec.name}.meta.standard.solved_return: found {given:g}; expected more than "
                f"{level.random_return:g}, the mean return of random play on "
                f"{trial.settings['level_name']}."
            )
    if spec.meta.objective != "fitness" or "levels" in spec.frozen:
        return
    if not level.has_standard:
        raise UserError(
            f"{spec.name}.meta.objective: found fitness; expected another, or "
            "meta.standard.solved_return and solved_frames: when "
            f"{spec.settings['level_name']} counts as solved is not known."
        )
    searched = [one.values for one in spec.searched if one.name == "level_name"]
    for name in itertools.chain(*searched):
        levels = Settings(level_name=name).level.levels
        if not standards.level_of(levels, -math.inf, Standard()).has_standard:
            raise UserError(
                f"{spec.name}.meta.objective: found fitness; expected another: when {name}, which "
                "is searched, counts as solved is not known."
            )
