"""The figures of a trial, from the reports of its sessions and the standards of its levels."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lab.results import fitness, random_play, standards
from lab.results.curves import Curve
from lab.trials.folder import Experiment, Trial
from user_error import UserError


def random_returns(experiment: Experiment) -> dict[str, float]:
    """The return of random play on each level; measured once and kept in the folder."""
    path = experiment.folder / "random_play.json"
    levels = experiment.spec.frozen.get("levels") or experiment.spec.levels
    settings = experiment.spec.settings
    settings = settings | {"level_name": ",".join(levels), "num_actors": len(levels)}
    return {level: one["return"] for level, one in random_play.kept(path, settings).items()}


def score(
    experiment: Experiment, trial: Trial, curves: Sequence[Curve], random: dict[str, float]
) -> dict[str, Any]:
    """All figures of a trial."""
    level = level_of(experiment, trial, random)
    name = experiment.spec.meta.objective
    if name == "auto":
        name = "fitness" if level.has_standard else "strength"
    return {"objective_name": name, **fitness.trial(curves, level, name)}


def level_of(experiment: Experiment, trial: Trial, random: dict[str, float]) -> fitness.Level:
    """What returns mean on the levels of a trial."""
    levels = [name.strip() for name in str(trial.settings["level_name"]).split(",")]
    known = [random[name] for name in levels]
    return standards.level_of(levels, float(np.mean(known)), experiment.spec.meta.standard)


def check_objective(experiment: Experiment, random: dict[str, float]) -> None:
    """Refuses the fitness as objective where nobody knows when the level is solved."""
    spec = experiment.spec
    probe = Trial(0, "", spec.settings, [])
    if spec.meta.objective != "fitness" or "levels" in spec.frozen:
        return
    if not level_of(experiment, probe, random).has_standard:
        raise UserError(
            f"{spec.name}.meta.objective: found fitness; expected another, or "
            "meta.standard.solved_return and solved_frames: when "
            f"{spec.settings['level_name']} counts as solved is not known."
        )
