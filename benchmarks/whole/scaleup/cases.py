"""What is measured: cases, and how the rate of one comes from its learners' reports."""

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from benchmarks.whole.scaleup.options import Chosen, Options
from trainer.settings import config
from trainer.settings.config import Settings

# How long a process may take from its start to its first report, however slow the machine.
STARTS_WITHIN_S = 240.0

Reports = list[dict[str, Any]]


class Case(NamedTuple):
    """Learners with ``actors`` actors each, which average their gradients or are ``apart``."""

    learners: int
    actors: int
    apart: bool = False

    @property
    def teams(self) -> list[list[int]]:
        """The learners by whom they train with."""
        numbers = list(range(self.learners))
        return [[number] for number in numbers] if self.apart else [numbers]

    def __str__(self) -> str:
        how = "" if self.learners == 1 else " apart" if self.apart else " together"
        return f"{self.learners} learners{how}, {self.actors} actors each"


class Running(Protocol):
    """A case's processes."""

    def reports(self) -> list[Reports]:
        """What each team's first learner has reported until now."""

    def wait(self, until: Callable[[], object], seconds: float) -> None:
        """Waits until something holds; an error where a process ends or it takes too long."""


def cases(chosen: Chosen) -> list[Case]:
    """All that is measured in a turn; what is compared comes one after the other."""
    return [
        Case(learners, actors, apart)
        for actors in chosen.actors
        for learners in chosen.learners
        for apart in ([True, False] if learners > 1 else [False])
    ]


def limits(options: Options) -> tuple[float, float]:
    """The most seconds before the first piece that counts, and from there to the last."""
    warm_up = STARTS_WITHIN_S + 2 * options.warm_up * options.window_s
    return warm_up, 60 + 4 * options.windows * options.window_s


def training_flags(chosen: Chosen, actors: int) -> dict[str, Any]:
    """The flags of all processes of a case, besides the user's."""
    hosts = chosen.hosts
    starting = max(chosen.learners) * (hosts.start_timeout_s + hosts.patience)  # one by one
    return {
        "total_environment_frames": 10**14,
        # On hosts, what a killed benchmark leaves would otherwise go on.
        "stop_after_s": starting + sum(limits(chosen.options)),
        "report_every_s": chosen.options.window_s,
        "checkpoint_every_s": 86400.0,
        "synthetic_unrolls": actors == 0,
    }


def given_flags(settings: Settings, names: Sequence[str]) -> list[str]:
    """The flags of these settings, but for those in ``names``."""
    flags = config.to_flags(settings)
    return [flag for flag in flags if flag.partition("=")[0].removeprefix("--") not in names]


def rate(running: Running, chosen: Chosen) -> float:
    """Agent steps a second of all teams together, while all of them train."""
    options = chosen.options
    to_warm_up, to_measure = limits(options)
    running.wait(
        lambda: all(len(rows) >= options.warm_up for rows in running.reports()), to_warm_up
    )
    begun = [len(rows) for rows in running.reports()]

    def measured() -> list[Reports]:
        ends = zip(begun, running.reports(), strict=True)
        return [rows[start : start + options.windows] for start, rows in ends]

    running.wait(lambda: all(len(rows) == options.windows for rows in measured()), to_measure)
    return math.fsum(
        statistics.median(row["steps_per_second"] for row in rows) for rows in measured()
    )
