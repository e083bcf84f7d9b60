"""What the frontend needs of a backend."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Protocol

from cluster.actions.seen import Seen
from cluster.record import Part, Record


@dataclasses.dataclass(frozen=True)
class Tails:
    """What logs hold beyond the offsets given, and which processes may write more."""

    texts: dict[str, tuple[str, int]]  # by process: the text, and the offset behind it
    alive: set[str]
    silent: dict[str, str]  # hosts that cannot be read from, and why


class Backend(Protocol):
    """Starts runs of one plan; looks at any run of its kind, and ends it."""

    def prepare(self) -> None:
        """Makes the plan; a ``UserError`` says what is wrong with it."""

    def show(self) -> None:
        """Prints the plan, and what would be run."""

    def sync(self) -> int:
        """Brings the project to where it will run; returns the exit code."""

    def check(self, before: Record | None = None) -> bool:
        """Whether the plan can be started, also in place of a run ``before``; prints problems."""

    def start(self) -> int:
        """Starts the plan, once checked; stops all of it again if a part did not start."""

    def look(self, record: Record) -> Seen:
        """The state of a run."""

    def parts(self, record: Record) -> Sequence[Part]:
        """The processes that a run has now, which may not be those of its start."""

    def tail(self, record: Record, offsets: Mapping[str, int]) -> Tails:
        """What the logs of these processes hold; a negative offset counts from the end."""

    def fetch(self, record: Record, folder: str) -> int:
        """Copies what the first learner has written into a folder here; returns the exit code."""

    def add(self, record: Record) -> int:
        """Starts the actors of the CSV that a run does not have; 1 if some did not start."""

    def remove(self, record: Record) -> int:
        """Ends the actors on the chosen hosts, and nothing else; 1 if some may be left."""

    def stop(self, record: Record) -> int:
        """Ends every process of a run; returns 1 if some may be left, and names them."""

    def close(self) -> None:
        """Lets go of what it holds, such as connections."""
