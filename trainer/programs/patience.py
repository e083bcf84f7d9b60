"""How long a learner of a team waits for its batch before it lets the others go on without it."""

import math

from trainer.learning.batches import LOOK_EVERY_S
from trainer.team.team import Round

# How much longer than others' actors those of a learner in step may play before it is left out.
LATER_THAN_OTHERS = 1.5


class Patience:
    """A learner that was late does not wait again until it has a batch.

    In step, the others' update throws away what its actors are playing, so that it would never have
    one. So it is waited for after 0, 1, 2, 4, 8, ... rounds that it missed, if it has actors; those
    that have just come may be in time again.
    """

    def __init__(self, longest_s: float = math.inf, in_step: bool = False):
        """``longest_s``: ``--max_batch_wait_s``; without an end for a learner that is alone."""
        self._longest_s = longest_s
        self._in_step = in_step
        self._actors = 0
        self._missed = 0  # rounds in a row without a batch in which others had one
        self._played_s = 0.0  # how long actors in step play for a batch, at other learners, too
        self._is_idle = False  # no learner had a batch in the last round

    def of_next(self, actors: int, is_starved: bool) -> float:
        """Seconds for the next round; ``is_starved``: it was late, and has had no batch since."""
        if actors > self._actors:
            self._missed = 0
        self._actors = actors
        if self._in_step and actors and not self._missed & (self._missed - 1):
            return max(self._longest_s, LATER_THAN_OTHERS * self._played_s)
        if is_starved:
            return LOOK_EVERY_S if self._is_idle else 0.0
        return self._longest_s

    def after(self, round: Round, has_batch: bool) -> None:
        """Takes what all learners together said in a round."""
        self._is_idle = not round.batches
        if round.batches:
            self._played_s = float(round.played_s / round.batches)
            self._missed = 0 if has_batch else self._missed + 1
