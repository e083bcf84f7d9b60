"""What a run resumes from: whether its checkpoint fits, and what has changed since."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from algorithms import registry
from environments import EnvironmentSpec, View, described
from environments.names import is_atari
from trainer import build
from trainer.learning.learner import Learner
from trainer.settings.config import Settings
from trainer.storage.checkpoints import GROUPS, KINDS, SEATS, Checkpoint
from trainer.storage.records import SETTINGS
from user_error import UserError


def spaces(spec: EnvironmentSpec) -> dict[str, str]:
    """What a level has to do with the shapes of weights, and the bodies played, as text."""
    seen = spec.observation_space
    return {
        "observations": f"{list(seen.shape)} {seen.dtype}, {spec.frame_stack} stacked",
        "actions": str(spec.action_space),
        SEATS: ", ".join(spec.bodies),
    } | ({KINDS: described(spec.kinds)} if spec.kinds else {})


OF_WORLD = ("level_name", "env_kwargs", "wrappers")
OF_SIGHT = ("action_masks", "tell_bodies")
# The flags that may be to blame if one of these has changed.
BLAMED = {
    "agent_name": ["agent_name"],
    "observations": [*OF_WORLD, *OF_SIGHT, "width", "height", "crop", "colour", "frame_stack"],
    KINDS: [*OF_WORLD, *OF_SIGHT, "full_action_set"],
    "actions": [*OF_WORLD, "full_action_set", "action_set"],
    "algorithm": ["algorithm"],
    "hidden_sizes": ["hidden_sizes"],
    "channels": ["channels"],
    "lstm_size": ["lstm_size"],
    "normalise_observations": ["normalise_observations"],
    "separate_baseline": ["separate_baseline"],
    "state_deviations": ["state_deviations"],
    "action_masks": ["action_masks"],
    "optimizer": ["optimizer"],
}
# Values that leave it to the agent: then only the shapes of weights show what has changed.
LEFT_TO_AGENT = {"hidden_sizes": "", "channels": "", "lstm_size": "0", "separate_baseline": "auto"}


def _recorded(folder: Path, name: str) -> str:
    """A setting of the run in this folder, as its settings have it; "" if they do not say."""
    try:
        return str(json.loads((folder / SETTINGS).read_bytes())[name] or "")
    except (OSError, ValueError, LookupError, TypeError):
        return ""


def recorded_algorithm(folder: Path) -> str:
    """The algorithm of the run in this folder, as its settings have it; "" if they do not say."""
    return registry.name_of(_recorded(folder, "algorithm"))


def check_folder(folder: Path) -> None:
    """Refuses the folder of what trains agents that have runs of their own below it."""
    kept, found = folder / "checkpoints", recorded_algorithm(folder)
    is_program = found in registry.KNOWN and bool(registry.settings_of(found).program)
    # Programs link to the checkpoints of their agent, where the file system has links.
    below = kept.is_symlink() and kept.resolve().is_relative_to(folder.resolve())
    if below or (is_program and not kept.exists()):
        raise UserError(
            f"--logdir={folder} is the run of a program of trainings, such as --algorithm=simple, "
            "and this command trains one agent. Choose another --logdir."
        )
    if (agents := _recorded(folder, "agents")) and not kept.exists():
        raise UserError(
            f"--logdir={folder} is the run of --agents={agents}, and this command trains one "
            "agent. Choose another --logdir."
        )


def check_folder_of_several(folder: Path, agents: str) -> None:
    """Refuses the folder of a run of one agent for several, which have runs of their own."""
    if os.path.lexists(folder / "checkpoints"):
        raise UserError(
            f"--logdir={folder} is the run of one agent, and --agents={agents} trains several. "
            "Choose another --logdir."
        )


def check_initial(checkpoint: Checkpoint, source: str, where: Path) -> str:
    """Refuses ``--initial_weights`` where a run goes on that did not begin with them.

    Returns those that it began with, which a resume need not name.
    """
    before = checkpoint.settings.get("initial_weights") or ""
    if source and source != before:
        trained = f"with --initial_weights={before}" if before else "without that flag"
        raise UserError(
            f"--initial_weights={source}: the run in {where} goes on from its newest checkpoint, "
            f"which was trained {trained}. Leave it out, or choose another --logdir."
        )
    return before


def check_fits(
    checkpoint: Checkpoint,
    learner: Learner,
    settings: Settings,
    spec: EnvironmentSpec,
    where: Path,
) -> None:
    """Refuses to resume from a checkpoint whose weights cannot be used with these settings."""
    check_same(checkpoint, settings, spec, where)
    now, before = settings.flat() | spaces(spec), checkpoint.settings
    kept = arrays_of(checkpoint)
    for group, variables in learner.groups().items():
        shapes = [tuple(variable.shape) for variable in variables.values()]
        if shapes != [array.shape for array in kept[group].values()]:
            flags = ["level_name", *LEFT_TO_AGENT]
            raise UserError(_misfit(now, before, flags, " (weights of other shapes)", where))


def check_same(
    checkpoint: Checkpoint, settings: Settings, spec: EnvironmentSpec, where: Path
) -> None:
    """The same as far as settings alone show it."""
    if settings.remote.synthetic_unrolls or checkpoint.settings.get("synthetic_unrolls"):
        raise UserError(
            f"the run in {where} cannot be resumed, because it was started with "
            "--synthetic_unrolls or this command has it. Choose another --logdir."
        )
    now = settings.flat() | spaces(spec)
    before = checkpoint.settings
    fixed = {name: [name] for name in settings.algorithm.fixed}
    for name, flags in (BLAMED | fixed).items():
        is_now, was = now.get(name, ""), before.get(name, "")
        if not _may_be_the_same(name, is_now, was):
            detail = "" if name in flags else f" ({name} {is_now} instead of {was})"
            raise UserError(_misfit(now, before, flags, detail, where))
    check_units(checkpoint, settings, spec, where)
    _check_seats(checkpoint, settings, now[SEATS], where)


def _check_seats(checkpoint: Checkpoint, settings: Settings, now: str, where: Path) -> None:
    """Refuses other bodies than an agent was trained to play; old checkpoints do not tell them."""
    before, agent = checkpoint.settings.get(SEATS, now), settings.program.agent
    if agent and now != before and not has_other_level(checkpoint, settings):
        raise UserError(
            f"--agents: {agent} would play {now}, and in {where} it was trained to play "
            f"{before}. Give --agents and --bodies as before, or choose another --logdir."
        )


def check_units(
    checkpoint: Checkpoint,
    settings: Settings,
    spec: EnvironmentSpec,
    where: Path,
    otherwise: str = "choose another --logdir",
) -> None:
    """Refuses what makes weights of the same shapes mean something else.

    ``otherwise`` is what to do instead of what the weights were trained with.
    """
    before, now = checkpoint.settings, settings.flat() | spaces(spec)
    heads = build.algorithm(settings).heads
    levels, were = settings.level.levels, _listed(before["level_name"])
    if heads.values > 1 and levels != were and sorted(levels) == sorted(were):
        detail = " (another order)"
        raise UserError(_misfit(now, before, ["level_name"], detail, where, otherwise))
    pictures = len(spec.observation_space.shape) == 3
    if pictures and before.get("backdrop") is False and settings.agent.backdrop:
        raise UserError(_misfit(now, before, ["backdrop"], "", where, otherwise))
    is_now, was = (
        values["activation"].replace("auto", heads.activation) for values in (now, before)
    )
    if is_now != was:
        raise UserError(_misfit(now, before, ["activation"], "", where, otherwise))


def arrays_of(checkpoint: Checkpoint) -> dict[str, dict[str, np.ndarray]]:
    """A checkpoint's arrays in the form that ``Learner.restore`` takes."""
    return {group: getattr(checkpoint, group) for group in GROUPS}


def changes(checkpoint: Checkpoint, settings: Settings) -> list[str]:
    """Warnings about what resumes in another way than it stopped."""
    warnings = []
    if changed := _changed_level(checkpoint, settings):
        before, now = (
            " ".join(f"--{name}={each[when]}" for name, each in changed.items()) for when in (0, 1)
        )
        warnings.append(
            f"the run was trained with {before} and continues with {now}: the frame count "
            "continues, too; mean return and best checkpoint start afresh, and the best one until "
            "now is kept under another name."
        )
    was, clips = (
        values.get("reward_clipping", "none") for values in (checkpoint.settings, settings.flat())
    )
    if was != clips:
        warnings.append(
            f"--reward_clipping was {was} and is {clips} now: values that were learned before have "
            "to be learned again."
        )
    had_lives, has_lives = (
        "on" if values.get("episodic_life") else "off"
        for values in (checkpoint.settings, settings.flat())
    )
    if had_lives != has_lives and any(map(is_atari, settings.level.levels)):
        warnings.append(
            f"--episodic_life was {had_lives} and is {has_lives} now: in a game with lives, values "
            "that were learned before have to be learned again."
        )
    ratio, new_ratio = (
        values.get("updates_per_step") for values in (checkpoint.settings, settings.flat())
    )
    if ratio and new_ratio and ratio != new_ratio:
        warnings.append(
            f"--updates_per_step was {ratio:g} and is {new_ratio:g} now: exploration counts steps "
            "by the updates that they allow, and goes on as if all were played at the new ratio."
        )
    total = checkpoint.settings.get("total_environment_frames") or 0
    new_total = settings.learning.total_environment_frames
    frames = checkpoint.counters["environment_frames"]
    falls = settings.learning.learning_rate_schedule == "linear"
    if falls and total and new_total != total and frames < new_total:
        rate, trained = settings.learning.learning_rate, checkpoint.settings
        fell = trained.get("learning_rate_schedule", "linear") == "linear"
        old_rate = trained.get("learning_rate", rate) * max(0.0, 1 - fell * frames / total)
        warnings.append(
            f"--total_environment_frames was {total:,} and is {new_total:,} now: the learning rate "
            f"goes from {old_rate:.2g} to {rate * (1 - frames / new_total):.2g}, and reaches 0 at "
            "the new end."
        )
    return warnings


def has_other_level(checkpoint: Checkpoint, settings: Settings) -> bool:
    """Whether the checkpoint is of a run that played another level, or one made otherwise."""
    return bool(_changed_level(checkpoint, settings))


def _changed_level(checkpoint: Checkpoint, settings: Settings) -> dict[str, tuple[str, str]]:
    """What names or makes the level and has changed: as it was, and as it is now."""
    now = settings.flat()
    both = {name: (str(checkpoint.settings.get(name) or ""), now[name]) for name in OF_WORLD}
    return {
        name: each for name, each in both.items() if len({_world(name, one) for one in each}) > 1
    }


def _world(name: str, text: str) -> str:
    """A setting of what is played, in one form however it was written."""
    if name == "level_name":
        return ",".join(_listed(text))
    made: dict[str, Any] = {name: text}
    return View(**made).made_with[name]


def _listed(text: str) -> list[str]:
    """What stands between commas."""
    return [one.strip() for one in text.split(",")]


def level_since(checkpoint: Checkpoint, settings: Settings) -> int:
    """The frames after which the run has played the level of these settings."""
    if has_other_level(checkpoint, settings):
        return int(checkpoint.counters["environment_frames"])
    return int(checkpoint.counters.get("level_since", 0))


def counters(checkpoint: Checkpoint, settings: Settings) -> dict[str, Any]:
    """A checkpoint's counters, without the returns of a level that is no longer played."""
    if not has_other_level(checkpoint, settings):
        return checkpoint.counters
    of_level = ("recent_returns", "recent_lengths", "best_return")
    return {name: value for name, value in checkpoint.counters.items() if name not in of_level}


def _may_be_the_same(name: str, now: Any, before: Any) -> bool:
    """Whether two values of a setting may mean the same, as far as they alone show it."""
    texts = [str(value).lower().replace(" ", "") for value in (now, before)]
    return texts[0] == texts[1] or LEFT_TO_AGENT.get(name) in texts


def _misfit(
    now: dict[str, Any],
    before: dict[str, Any],
    flags: list[str],
    detail: str,
    where: Path,
    otherwise: str = "choose another --logdir",
) -> str:
    """The error message; it names the flags that have changed, or else the first."""
    # Checkpoints know no flags that are younger.
    changed = [flag for flag in flags if now[flag] != before.get(flag, now[flag])] or flags[:1]
    given = " ".join(f"--{flag}={now[flag]}" for flag in changed)
    trained = " ".join(f"--{flag}={before.get(flag, now[flag])}" for flag in changed)
    if given == trained:
        return (
            f"{given}{detail} does not fit the run in {where}: the code behind it has changed. "
            f"{otherwise.capitalize()}."
        )
    return (
        f"{given}{detail} does not fit the run in {where}, which was trained with {trained}. "
        f"Use that, or {otherwise}."
    )
