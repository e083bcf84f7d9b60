"""The benchmark of V-trace keeps what it has measured."""

import json

import pytest

from benchmarks.parts import vtrace
from benchmarks.tools.common import spread
from tests.benchmarks.whole.stopping import stopped_at


def test_what_was_measured_is_written_when_it_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(vtrace, "timed", stopped_at(4, (1.0, spread([0.1]))))
    with pytest.raises(KeyboardInterrupt):
        vtrace.measure(["--frames=1", f"--results={tmp_path}"])
    assert len(json.loads((tmp_path / "vtrace.json").read_text())["rows"]) == 2
