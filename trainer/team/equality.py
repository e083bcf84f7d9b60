"""Checks now and then that all learners of a team have bit-identical weights; repairs them if not.

They start with the first learner's weights and make the same updates, so they stay equal.
Different kinds of processors may round differently, though; without this check the differences
would add up unnoticed.
"""

import zlib
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from trainer.team.team import Team

COMPARE_EVERY_UPDATES = 100


class Equality:
    """Compares all learners' weights; all of them make the same calls at the same updates."""

    def __init__(self, team: Team, variables: Sequence[tf.Variable], say: Callable[[str], None]):
        """``variables`` are all that an update changes."""
        self._team = team
        self._variables = variables
        self._say = say if team.rank == 0 else lambda text: None
        self._comparisons = 0
        self._differences = 0

    def after_update(self, updates: int) -> None:
        """Compares every ``COMPARE_EVERY_UPDATES`` updates."""
        if updates % COMPARE_EVERY_UPDATES == 0:
            self.compare(updates)

    def compare(self, updates: int) -> None:
        """Compares; if weights differ, all learners copy the first one's."""
        if self._team.size == 1:
            return
        mine = np.array([digest(self._variables)], np.int64)
        digests = self._team.gather(mine)
        self._comparisons += 1
        if (digests == digests[0]).all():
            return
        self._team.broadcast(self._variables)
        self._differences += 1
        if self._differences == 1:
            others = ", ".join(map(str, np.flatnonzero(digests != digests[0])))
            self._say(
                f"warning: at update {updates:,} the weights of learner {others} "
                "differed from those of learner 0, which all learners have now copied. Different "
                "kinds of processors may round differently; if they are the same, suspect faulty "
                "memory."
            )

    def finish(self, updates: int) -> None:
        """Compares a last time and reports how often weights differed."""
        self.compare(updates)
        if not self._comparisons:
            return
        result = (
            f"were bit-identical in all {self._comparisons} comparisons"
            if not self._differences
            else f"differed in {self._differences} of {self._comparisons} comparisons"
        )
        self._say(
            f"The weights of the {self._team.size} learners {result}, the last one after "
            f"{updates:,} updates."
        )


def digest(variables: Sequence[tf.Variable]) -> int:
    """A checksum of the variables; it misses a difference once in 2³² times."""
    checksum = 0
    for variable in variables:
        checksum = zlib.crc32(variable.numpy().tobytes(), checksum)
    return checksum
