"""What a running experiment shows of itself."""

import pytest

from lab.running.progress import Running, Snapshot, line
from lab.trials import plan
from lab.trials.folder import DONE, OPEN, Trial


def _trial(number: int, state: str = OPEN, **results: float) -> Trial:
    return Trial(number, "", {}, [1, 2, 3], state=state, results={"objective": 1, **results})


def _running(trial: Trial, frames: int, time_left: float | None) -> Running:
    return Running(trial, 0, 1, frames, 100, None, time_left)


@pytest.mark.parametrize(
    ("trials", "frames", "time_left", "ended", "left"),
    [
        # Two sessions and a half of 60 s each, on two slots.
        ([_trial(0)], 50, 30.0, 0, "about 1 min 15 s left"),
        # Of the trial and of another that has not begun, two sessions have ended.
        ([_trial(0), _trial(1)], 50, 30.0, 2, "about 1 min 45 s left"),
        # Known sessions took 20 s each, whatever the one that is running expects.
        ([_trial(0, DONE, took=60), _trial(1)], 50, 30.0, 0, "about 25 s left"),
        ([_trial(0)], 0, None, 0, ""),
        ([_trial(0, DONE, took=60)], 100, 0.0, 0, ""),
    ],
)
def test_the_time_left_is_that_of_the_sessions_that_are_left(
    trials: list[Trial], frames: int, time_left: float | None, ended: int, left: str
):
    running = [_running(trials[-1], frames, time_left)]
    told = line(Snapshot(trials, running, len(trials), 2, ended)).split(" · ")
    assert [part for part in told if part.endswith("left")] == ([left] if left else [])


def test_trials_of_a_benchmark_have_no_best_as_their_levels_cannot_be_compared():
    for kind, best in ((plan.BENCHMARK, False), (plan.PROPOSED, True)):
        trial = Trial(0, kind, {}, [1], state=DONE, results={"objective": 1})
        assert ("best t0" in line(Snapshot([trial], [], 2, 1))) is best
