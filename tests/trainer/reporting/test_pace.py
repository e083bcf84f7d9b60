"""The speed that a process reports."""

import re

from cluster.actions.watching import RATE
from trainer.reporting.pace import LONGEST_S, Pace


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_frames_per_second_are_reported_at_intervals_and_a_standstill_once():
    clock = Clock()
    lines: list[str] = []
    pace = Pace("actor 3", 10.0, lines.append, clock)

    def play(seconds: float, frames: int) -> None:
        clock.now += seconds
        pace.add(frames)

    play(11, 0)
    assert lines == []  # it has not played yet
    play(5, 10_000)
    play(5, 10_000)
    assert lines == ["actor 3: 2,000 frames/s"]
    for _ in range(3):
        play(10, 0)
    assert lines[1:] == ["actor 3: 0 frames/s"]
    play(10, 50)
    assert lines[2:] == ["actor 3: 5 frames/s"]


def test_no_process_is_silent_so_long_that_it_would_look_stuck():
    clock = Clock()
    lines: list[str] = []
    pace = Pace("learner 0", 3600.0, lines.append, clock)
    clock.now += LONGEST_S
    pace.add(60)
    assert lines == ["learner 0: 1 frames/s"]


def test_the_frontend_recognises_the_figure():
    found = RATE.search("actor 3: 1,234,567 frames/s")
    assert found and found[1] == "1,234,567"
    assert not re.search(RATE, "frames 12  frames/s    1,234  agent steps/s")
