"""The benchmark of a world model keeps the turns that have ended."""

import json

import pytest

from benchmarks.parts import world_model
from tests.benchmarks.whole.stopping import stopped_at
from user_error import UserError


def test_turns_that_have_ended_are_written_when_it_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(world_model.common, "rate", stopped_at(4 * 3 + 2, 100.0))
    with pytest.raises(KeyboardInterrupt):
        world_model.measure(["--preset=simple_catch", f"--results={tmp_path}"])
    told = json.loads((tmp_path / "world_model.json").read_text())
    assert told["what"] == "Catch-v0, simple_catch"
    rows = told["rows"]
    assert [row["samples/s"]["values"] for row in rows] == [[100.0] * 2] * 4


def test_a_level_without_pictures_is_refused(tmp_path):
    with pytest.raises(UserError, match="pictures"):
        world_model.measure(["--level_name=CartPole-v1", f"--results={tmp_path}"])
