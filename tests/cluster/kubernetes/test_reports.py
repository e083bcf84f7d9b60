"""What the frontend reads in a learner's log is what a learner prints."""

import datetime
from typing import Any

import pytest

from cluster.backends.kubernetes import looking
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


def test_a_line_of_a_log_ends_where_kubernetes_ends_it():
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    class Cluster:
        def log(self, pod: str, **_: Any) -> str:
            return f"{stamp} 10%\r20%\n{stamp} a\u2028b\x0c"

    cluster: Any = Cluster()
    lines, silent = looking._last_lines({"metadata": {"name": "pod-0"}}, cluster)
    assert lines == ("10%\r20%", "a\u2028b\x0c") and silent < 10_000
    text, _ = looking._read("pod-0", -1000, cluster)
    assert text == "10%\r20%\na\u2028b\x0c\n"
