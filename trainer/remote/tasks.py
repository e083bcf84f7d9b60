"""Notices actors that were started with the same ``--task``, whatever the algorithm."""

from collections.abc import Callable
from typing import Any


class Tasks:
    """Looks at the numbers of each actor's blocks as they arrive."""

    def __init__(self, say: Callable[[str], None]):
        self._say = say
        self._newest: dict[int, int] = {}  # the number of each actor's newest block
        self._backwards: dict[int, int] = {}  # how often it was below the one before, since 0
        self._has_said = False

    def check(self, block: Any) -> None:
        """Warns once if the numbers of two actors come in turns.

        One that was started again begins with 0. A late block of the one before it is no reason
        to warn, so it takes a second one before the next start.
        """
        actor, number = int(block.stream[0]), int(block.number[0])
        if number == 0:
            self._backwards[actor] = 0
        elif number <= self._newest.get(actor, -1):
            self._backwards[actor] = self._backwards.get(actor, 0) + 1
            if self._backwards[actor] == 2 and not self._has_said:
                self._has_said = True
                self._say(
                    "warning: two actors play with the same --task. Give each actor of a run a "
                    "number of its own: these may play the same games."
                )
        self._newest[actor] = number
