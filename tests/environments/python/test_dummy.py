"""The dummy level has the size that its name says, and works or waits as long as it says."""

import time

import numpy as np
import pytest

import environments
from environments.names import find
from environments.python.dummy import EPISODE_STEPS, DummyLevel, work


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("84x84x4-1000", DummyLevel((84, 84, 4), 1000.0)),
        ("16-0.5", DummyLevel((4,), 0.5)),
        ("84x84x1-100-wait", DummyLevel((84, 84, 1), 100.0, waits=True)),
    ],
)
def test_a_name_stands_for(text, level):
    assert find(f"dummy:{text}") == level


@pytest.mark.parametrize("text", ["84x84-10", "3-1", "16-0", "16", "0x84x1-10", "16-10-sleep"])
def test_another_name_is_refused(text, one_line):
    one_line(lambda: find(f"dummy:{text}"), f"dummy:{text}: expected dummy:OBS-FPS")


def test_observations_have_the_size_and_change():
    for text, shape, kind in (("84x84x3", (84, 84, 3), np.uint8), ("400", (100,), np.float32)):
        made = environments.make(f"dummy:{text}-100000", 2, seed=1)
        before = made.reset().observation.copy()
        after = made.step(np.zeros(2, np.int32)).observation
        assert before.shape == (2, *shape) and before.dtype == kind
        assert (before != after).any()
        made.close()


def test_episodes_end_by_a_limit():
    made = environments.make("dummy:16-1000000", 1, seed=1)
    made.reset()
    for _ in range(EPISODE_STEPS):
        row = made.step(np.zeros(1, np.int32))
        assert not row.terminated[0]
    (episode,) = made.episodes()
    assert episode.length == EPISODE_STEPS
    made.close()


def test_work_takes_the_threads_own_time():
    # Bounds from below only: a busy machine makes everything longer.
    before = time.thread_time()
    work(0.02)
    assert time.thread_time() - before >= 0.02
    waiting = environments.make("dummy:16-50-wait", 1, seed=1)
    waiting.reset()
    started = time.monotonic()
    waiting.step(np.zeros(1, np.int32))
    assert time.monotonic() - started >= 0.02
    waiting.close()
