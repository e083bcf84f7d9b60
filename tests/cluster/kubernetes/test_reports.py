"""What the frontend reads in a learner's log is what a learner prints."""

import pytest

from cluster.backends.kubernetes.looking import REPORT
from trainer.reporting import wording


@pytest.mark.parametrize("known", [True, False])
def test_a_report_is_read_as_it_is_printed(known):
    figures = {
        "environment_frames": 1234567,
        "frames_per_second": 4321.0,
        "mean_episode_return": -20.5,
        "policy_lag": 2.5,
    }
    printed = wording.line(figures if known else {}, 10**7, [])
    found = REPORT.search(f"2026-11-24T10:00:00Z {printed}")
    assert found
    shown = {"1,234,567", "4,321", "-20.5", "2.500"} if known else {"0", wording.NONE}
    assert set(found.groupdict().values()) == shown
    assert set(found.groupdict()) == set(figures)
