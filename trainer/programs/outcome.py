"""The result of a training, for the program that called it."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from trainer.settings.config import Settings

OnReport = Callable[[dict[str, Any]], None]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a training ended."""

    folder: Path  # of the run: checkpoints, metrics, settings
    figures: dict[str, Any]  # the last report's; rates and waiting times are of the whole run
    best_return: float | None  # the best mean raw return of all reports
    reason: str  # why it ended
    settings: Settings  # complete, with defaults that fit the level
    # Of each of several agents; ``figures`` are then named AGENT/FIGURE, and ``folder`` has no
    # checkpoints of its own.
    agents: Mapping[str, "Outcome"] = dataclasses.field(default_factory=dict)


def ignore(figures: dict[str, Any]) -> None:
    """Ignores a report."""
