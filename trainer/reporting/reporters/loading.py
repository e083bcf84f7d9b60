"""Finds the classes that ``--reporters`` names."""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from checkout import setup_command
from user_error import UserError, closest


class RunReporter(Protocol):
    """What a reporter has; see the package."""

    def report(self, figures: dict[str, Any]) -> None:
        """Takes the figures of a report."""

    def finish(self, summary: dict[str, Any]) -> None:
        """Takes the end of the run."""


MakeReporter = Callable[[Path, dict[str, Any]], RunReporter]

HERE = "trainer.reporting.reporters"
KNOWN = {
    "mlflow": f"{HERE}.mlflow_reporter:MlflowReporter",
    "wandb": f"{HERE}.wandb_reporter:WandbReporter",
}


def load(names: str) -> dict[str, MakeReporter]:
    """The class of each of the reporters, in order."""
    return {name: _load(name) for name in map(str.strip, names.split(",")) if name}


def _load(name: str) -> MakeReporter:
    path = KNOWN.get(name.lower(), name)
    module, colon, attribute = path.partition(":")
    if not colon:
        raise UserError(
            f"--reporters={name} is not known. {closest(name, KNOWN)} One of your own is named "
            "package.module:Class."
        )
    try:
        found = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # whatever a file of one's own raises
        raise UserError(f"--reporters={name}: cannot be imported ({error}).{_fix(name)}") from error
    lacks = [one for one in ("report", "finish") if not callable(getattr(found, one, None))]
    if lacks:
        raise UserError(f"--reporters={name}: {path} has no method {' and no '.join(lacks)}.")
    return found


def _fix(name: str) -> str:
    return f" Run {setup_command('trackers')}." if name.lower() in KNOWN else ""
