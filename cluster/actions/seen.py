"""The state of a run: of each process, as its backend sees it."""

import dataclasses
import json
import os.path
from collections.abc import Sequence
from typing import Any

from cluster.on_host.states import SILENT, is_living
from cluster.record import OUTLAST, Listener, Part, Record

# Starts the state of a process whose host does not answer.
UNSEEN = "unknown: "


@dataclasses.dataclass(frozen=True)
class SeenPart:
    """A process as it is now."""

    part: Part
    state: str
    since: float | None = None
    restarts: int = 0
    last_lines: tuple[str, ...] = ()
    silent_s: float = 0.0

    @property
    def name(self) -> str:
        """The process's name."""
        return self.part.name

    @property
    def is_alive(self) -> bool:
        """Whether it is running, or will be again."""
        return is_living(self.state)

    @property
    def is_unseen(self) -> bool:
        """Whether its host does not answer, so that it may still be running."""
        return self.state.startswith(UNSEEN)

    @property
    def why_unseen(self) -> str:
        """Why its host does not answer."""
        return self.state.removeprefix(UNSEEN)

    @property
    def is_silent(self) -> bool:
        """Whether it is an ``mpirun`` that may hang: no learner has written anything for long."""
        return self.state == SILENT

    @property
    def has_failed(self) -> bool:
        """Whether it ended without having finished or being stopped."""
        return not self.is_alive and self.state not in ("done", "stopped")


@dataclasses.dataclass(frozen=True)
class Seen:
    """A run as it is now."""

    parts: list[SeenPart]
    listening: dict[Listener, bool]
    figures: dict[str, dict[str, Any]]  # the last ones of each learner that reports, by its name
    unseen: dict[str, str]  # learners whose mpirun can be seen but whose host cannot, and why

    @property
    def is_alive(self) -> bool:
        """Whether the run is alive; what goes on until it is stopped does not count."""
        return any(one.is_alive for one in self.parts if one.part.job not in OUTLAST)

    @property
    def is_learning(self) -> bool:
        """Whether a learner is alive."""
        return any(one.is_alive for one in self.parts if one.part.job == "learner")

    @property
    def may_be_alive(self) -> bool:
        """Whether the run is alive, or may be on a host that does not answer."""
        return self.is_alive or any(one.is_unseen for one in self.parts)

    @property
    def has_failed(self) -> bool:
        """Whether a process has failed, cannot be seen or shows no sign of life."""
        return bool(self.unseen) or any(one.has_failed or one.is_silent for one in self.parts)


def figures_in(lines: Sequence[str]) -> dict[str, Any]:
    """The figures of a report, the last of these lines; none where it is no report."""
    try:
        figures = json.loads(lines[-1])
    except (IndexError, ValueError):
        return {}
    return figures if isinstance(figures, dict) else {}


def advice(seen: Seen, record: Record) -> str:
    """What to look at if an ``mpirun`` shows no sign of life; "" if none does."""
    return "\n".join(_advice(one.part, record) for one in seen.parts if one.is_silent)


def _advice(part: Part, record: Record) -> str:
    log = os.path.join("" if part.host.is_local else part.place.folder, record.logdir, "cluster")
    window = f", window {part.name} of tmux session {record.tmux}" if record.tmux else ""
    return (
        f"mpirun on {part.host} has started no learner yet. Look at\n"
        f"  - its output there: {log}/{part.name}.log{window}\n"
        "  - orted, which it starts on other learners' hosts (pgrep -a orted). If it is missing, "
        "the login hangs.\n"
        "    If it is running, it may not reach mpirun: firewall, or --mpirun_network\n"
        "  - programs on ports 6000 to 6009 of a learner's host (ss -ltn), such as TensorBoard on "
        "6006: end them"
    )
