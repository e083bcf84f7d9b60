"""How often an actor asks for newer weights, how long these may take, and how much it waits."""

import math
import time

# A learner may need a millisecond for an update, or a minute.
FIRST_ASK_S, ASK_LATER = 0.001, 1.3
LONGEST_LIMIT_S = 600.0


class Pauses:
    """Pauses between questions: as long as a beat, or growing from short ones.

    They grow for an actor that waits for what it asks for; ``longest_s`` is None for others.
    """

    def __init__(self, beat_s: float, longest_s: float | None):
        self._beat_s = beat_s
        self._longest_s = longest_s
        self._last_s = math.inf if longest_s is None else FIRST_ASK_S

    def next(self) -> float:
        """The length of the next pause, in seconds."""
        if self._longest_s is None:
            return self._beat_s
        self._last_s = min(ASK_LATER * self._last_s, self._longest_s)
        return min(self._last_s, self._beat_s)

    def begin_anew(self) -> None:
        """Makes pauses short again, where they grow."""
        if self._longest_s is not None:
            self._last_s = FIRST_ASK_S

    def have_begun_anew(self, pause: float) -> bool:
        """Whether that happened during this pause."""
        return self._last_s < pause


class Waiting:
    """The share of its time that an actor waits for its learner."""

    def __init__(self) -> None:
        self._wait_s = 0.0
        self._since = time.monotonic()

    def add(self, seconds: float) -> None:
        """Counts these as waiting."""
        self._wait_s += seconds

    def take(self, now: float) -> float:
        """The share since the last call."""
        share = self._wait_s / max(now - self._since, 1e-9)
        self._wait_s, self._since = 0.0, now
        return share


class Limit:
    """Seconds that something may take: twice as many after each time that they were too few."""

    def __init__(self, first_s: float):
        self.seconds = first_s
        self._most_s = max(first_s, LONGEST_LIMIT_S)

    def grow(self) -> None:
        """They were too few."""
        self.seconds = min(2 * self.seconds, self._most_s)
