"""How busy the cores are, as the system counts."""

import time

from impala.cores import CoresTime, busy_share, cores_time


def test_a_core_that_works_is_busy():
    since = cores_time()
    assert since is not None
    share, until = None, time.monotonic() + 60
    while not share and time.monotonic() < until:
        sum(range(100_000))
        share = busy_share(since)
    assert share is not None and 0 < share <= 1


def test_without_figures_nothing_is_told():
    assert busy_share(None) is None
    later = CoresTime(busy=0.0, passed=1e18)
    assert busy_share(later) is None
