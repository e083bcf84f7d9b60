"""Finds algorithms by name: first their settings, without TensorFlow, then their classes."""

import dataclasses
import importlib
from typing import Any

from algorithms.settings import AlgorithmSettings
from user_error import UserError, closest

DEFAULT = "impala"
# Where each algorithm's settings are; these name its class.
KNOWN = {
    "impala": "algorithms.own_settings.impala:ImpalaSettings",
    "ppo": "algorithms.own_settings.ppo:PPOSettings",
    "a2c": "algorithms.own_settings.a2c:A2CSettings",
    "a3c": "algorithms.own_settings.a3c:A3CSettings",
    "reinforce": "algorithms.own_settings.reinforce:ReinforceSettings",
    "dqn": "algorithms.own_settings.dqn:DQNSettings",
    "double_dqn": "algorithms.own_settings.dqn:DoubleDQNSettings",
    "simple": "world_models.settings:SimpleSettings",
}


def name_of(given: str) -> str:
    """The name of an algorithm as it is kept, whatever capitals it was given with."""
    return given.lower() if given.lower() in KNOWN else given


def settings_of(name: str) -> type[AlgorithmSettings]:
    """The class of an algorithm's settings."""
    path = KNOWN.get(name_of(name), name)
    if ":" not in path:
        raise UserError(
            f"--algorithm={name} is not known. {closest(name, KNOWN)} "
            "Name one of your own as package.module:Settings."
        )
    found = _import(name, path)
    if not (isinstance(found, type) and issubclass(found, AlgorithmSettings)):
        raise UserError(
            f"--algorithm={name}: {path} is not a class of settings; expected a subclass of "
            "algorithms.settings.AlgorithmSettings."
        )
    return found


def owners(setting: str) -> list[str]:
    """The names of the algorithms that have this setting of their own."""
    return [
        name
        for name in KNOWN
        if setting in {field.name for field in dataclasses.fields(settings_of(name))}
    ]


def make(name: str, settings: Any, levels: int) -> Any:
    """The algorithm with these settings, for a run on ``levels`` levels."""
    if settings_of(name).program:
        raise UserError(
            f"--algorithm={name} is a program of trainings, which only experiment.py runs, in one "
            "process on one machine."
        )
    return _import(name, settings_of(name).implementation)(settings, levels)


def program_of(name: str, mode: str = "train") -> Any:
    """The function that does this in place of the usual programs, or None."""
    own = settings_of(name)
    path = own.program if mode == "train" else own.programs.get(mode)
    return _import(name, path) if path else None


def _import(name: str, path: str) -> Any:
    module, _, attribute = path.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except Exception as error:  # whatever a file of one's own raises
        raise UserError(f"--algorithm={name}: cannot import {path!r}: {error}.") from error
