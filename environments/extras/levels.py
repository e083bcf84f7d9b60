"""Makes one environment of a level that needs an extra of bin/setup."""

import importlib
from typing import NamedTuple, Protocol

import gymnasium

from checkout import setup_command
from environments.names import ExtraLevel
from environments.view import View
from user_error import UserError


class Make(Protocol):
    """What a module of this package has as `make`."""

    def __call__(self, name: str, view: View, render: bool) -> gymnasium.Env:
        """The environment of that name; `level_not_there` where there is none."""
        ...


class Extra(NamedTuple):
    """Who makes a kind of worlds, and what that needs."""

    product: str
    module: str  # of this package
    packages: tuple[str, ...]  # the imports that the extra installs


EXTRAS = {
    "doom": Extra("ViZDoom", "doom", ("vizdoom",)),
    "procgen": Extra("Procgen", "procgen", ("procgen", "gym3")),
    "robotics": Extra("Gymnasium-Robotics", "robotics", ("gymnasium_robotics",)),
    "dm_control": Extra("dm_control", "dm_control", ("dm_control",)),
}


def make_extra(level: ExtraLevel, level_name: str, view: View, render: bool) -> gymnasium.Env:
    """The environment of a level; a UserError if its extra is missing or knows no such level."""
    extra = EXTRAS[level.kind]
    try:
        make: Make = importlib.import_module(f"environments.extras.{extra.module}").make
        return make(level.name, view, render)
    except UserError:
        raise
    except Exception as error:
        if isinstance(error, ImportError) and _package(error) in extra.packages:
            raise UserError(
                f"--level_name: {level_name} needs {extra.product}, which is not installed here: "
                f"run {setup_command(level.kind)}, or give another level."
            ) from None
        given = f" with --env_kwargs={view.env_kwargs}" if view.env_kwargs else ""
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(".: ")
        raise UserError(
            f"--level_name: {extra.product} cannot make {level_name}{given}: {reason}."
        ) from error


def _package(error: ImportError) -> str:
    return (error.name or "").partition(".")[0]
