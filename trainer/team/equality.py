"""Learners of a team have the same weights, bit for bit: looked at now and then, and mended.

All of them start with the first one's weights and make the same updates, so they stay equal.
Processors of different kinds may round differently, though, and what adds up of that would let
learners drift apart without a word.
"""

import zlib
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from trainer.team.team import Team

COMPARE_EVERY_UPDATES = 100


class Equality:
    """Compares what all learners hold; all of them make the same calls at the same updates."""

    def __init__(self, team: Team, variables: Sequence[tf.Variable], say: Callable[[str], None]):
        """``variables`` are all that an update moves."""
        self._team = team
        self._variables = variables
        self._say = say if team.rank == 0 else lambda text: None
        self._comparisons = 0
        self._differences = 0

    def after_update(self, updates: int) -> None:
        """Compares when it is time."""
        if updates % COMPARE_EVERY_UPDATES == 0:
            self.compare(updates)

    def compare(self, updates: int) -> None:
        """Compares; where weights differ, all take over the first learner's."""
        if self._team.size == 1:
            return
        mine = np.array([digest(self._variables)], np.int64)
        told = self._team.gather(mine)
        self._comparisons += 1
        if (told == told[0]).all():
            return
        self._team.share(self._variables)
        self._differences += 1
        if self._differences == 1:
            others = ", ".join(map(str, np.flatnonzero(told != told[0])))
            self._say(
                f"warning: at update {updates:,} the weights of learner {others} "
                "were not equal to those of learner 0, which all go on with. Processors of "
                "different kinds may round differently; else look for a fault in their memory."
            )

    def finish(self, updates: int) -> None:
        """Compares for the last time, and says how it was."""
        self.compare(updates)
        if not self._comparisons:
            return
        found = (
            f"were equal, bit for bit, each of the {self._comparisons} times"
            if not self._differences
            else f"differed {self._differences} of the {self._comparisons} times"
        )
        self._say(
            f"The weights of the {self._team.size} learners {found} that they were compared, "
            f"last after {updates:,} updates."
        )


def digest(variables: Sequence[tf.Variable]) -> int:
    """A number that differs where a bit of the variables does, but for one chance in 2³²."""
    found = 0
    for variable in variables:
        found = zlib.crc32(variable.numpy().tobytes(), found)
    return found
