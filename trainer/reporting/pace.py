"""The speed of one process of many, reported at intervals."""

import time
from collections.abc import Callable

# A process that is silent for longer would look stuck.
LONGEST_S = 60.0


class Pace:
    """Reports the frames per second of one process: ``NAME: 1,234 frames/s``."""

    def __init__(
        self,
        name: str,
        every_s: float,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ):
        self._name = name
        self._every_s = min(every_s, LONGEST_S)
        self._say = say
        self._clock = clock
        self._frames = 0
        self._since = clock()
        self._moved = False

    def add(self, frames: int) -> None:
        """Counts frames and reports when it is time; a standstill is reported once."""
        self._frames += frames
        now = self._clock()
        if now - self._since < self._every_s:
            return
        if self._frames or self._moved:
            self._say(f"{self._name}: {self._frames / (now - self._since):,.0f} frames/s")
        self._frames, self._since, self._moved = 0, now, bool(self._frames)
