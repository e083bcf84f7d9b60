"""The settings with which the policy is trained in the model: those of ``--base_algorithm``."""

import dataclasses
from typing import Any

import flags
from algorithms import registry
from environments import EnvironmentSpec
from trainer.learning.settings import LearningSettings
from trainer.settings import checks
from trainer.settings.config import Settings
from user_error import UserError, in_short
from world_models.training import folders

# What ends other trainings.
ENDINGS = ("total_environment_frames", "stop_at_return", "stop_after_s")


def policy_settings(settings: Settings) -> Settings:
    """Everything but what belongs to the program, in the folder of the policy."""
    own = {field.name for field in dataclasses.fields(settings.algorithm)}
    base = settings.algorithm.base_algorithm
    flat = {name: value for name, value in settings.flat().items() if name not in own}
    flat |= {"algorithm": base, "logdir": str(folders.of(settings).policy)}
    made = Settings(**flat | _given(settings.algorithm.base_settings, base))
    checks.check(made)
    return made


def _given(text: str, base: str) -> dict[str, Any]:
    """The values of ``--base_settings``, each in the range of its definition."""
    if registry.settings_of(base).program:
        raise UserError(f"--base_algorithm={base} trains no policy by itself; name another one.")
    known = {field.name: field for field in dataclasses.fields(registry.settings_of(base))}
    values = {}
    for pair in filter(None, text.split(",")):
        name, _, value = pair.partition("=")
        if name not in known:
            raise UserError(
                f"--base_settings={text}: --base_algorithm={base} has no setting {name!r}."
                f"{flags.near(name, known)} It has: {', '.join(known)}."
            )
        values[name] = flags.value_of(known[name], value)
        wrong = flags.problem_with(known[name], values[name])
        if wrong:
            raise UserError(f"--base_settings={text}: {pair}: {wrong}.")
    return values


def check_program(settings: Settings) -> None:
    """Refuses a process or levels that cannot be, before anything is started."""
    program, level = settings.program, settings.level
    if program.job_name != "local":
        raise UserError(
            f"--job_name={program.job_name}: --algorithm=simple needs no actors elsewhere. Leave "
            "the flag out; mpirun starts several learners of the model."
        )
    if len(level.levels) > 1:
        raise UserError(
            f"--level_name={level.level_name}: a world model is of one level; name one."
        )
    for field in dataclasses.fields(LearningSettings):
        name, given = field.name, settings.flat()[field.name]
        if name in ENDINGS and given != field.default:  # a return of 0 is one
            raise UserError(
                f"--{name}={given:.15g}: --algorithm=simple ends with its phases. Leave the flag "
                "out; --model_epochs, --real_steps and --dream_ratio say how long they are."
            )
    policy_settings(settings)


def check_level(settings: Settings, spec: EnvironmentSpec) -> None:
    """Refuses a level that a world model cannot learn."""
    level = settings.level
    if not spec.image or spec.observation_space.dtype != "uint8":
        raise UserError(
            f"--level_name={level.level_name} observes {in_short(spec.observation_space)}; a world "
            "model needs pictures of bytes."
        )
    if not hasattr(spec.action_space, "n"):
        raise UserError(
            f"--level_name={level.level_name} takes actions {in_short(spec.action_space)}; a world "
            "model needs a choice of one among several (Discrete)."
        )
    if spec.num_bodies > 1:
        raise UserError(
            f"--level_name={level.level_name} has {spec.num_bodies} bodies; a world model is of a "
            "game that one plays alone."
        )
