"""The benchmark of environments measures what is here and tells what is not."""

import json

import pytest

from benchmarks.parts import environments
from user_error import UserError


def rows(tmp_path, *flags):
    environments.measure([*flags, "--seconds=0.02", "--repeats=1", f"--results={tmp_path}"])
    return json.loads((tmp_path / "environments.json").read_text())["rows"]


def test_a_level_is_measured_by_environments_and_threads(tmp_path):
    found = rows(
        tmp_path, "--level_names=CartPole-v1,PongNoFrameskip-v4", "--num_envs=1,3", "--threads=1,2"
    )
    keys = [(row["level"], row["environments"], row["threads"]) for row in found]
    assert keys == [
        (level, *sizes)
        for level in ("CartPole-v1", "PongNoFrameskip-v4")
        for sizes in (("1", "1"), ("3", "1"), ("3", "2"))
    ]
    for row in found:
        frames = 1 if row["level"] == "CartPole-v1" else 4
        assert row["frames/s"] == frames * row["agent steps/s"]["median"] > 0


def test_what_is_not_installed_is_told_and_the_others_go_on(tmp_path):
    missing, here = rows(tmp_path, "--level_names=tests.nowhere:make,CartPole-v1", "--num_envs=1",
                         "--threads=1")  # fmt: skip
    assert missing["environments"].startswith("not here:") and missing["agent steps/s"] is None
    assert "\n" not in missing["environments"]
    assert here["agent steps/s"]["median"] > 0


def test_levels_that_have_been_measured_are_written_when_it_is_stopped(tmp_path, monkeypatch):
    add = environments.add

    def stopped(report, own, name, *sizes):
        if name == "Acrobot-v1":
            raise KeyboardInterrupt
        add(report, own, name, *sizes)

    monkeypatch.setattr(environments, "add", stopped)
    with pytest.raises(KeyboardInterrupt):
        rows(tmp_path, "--level_names=CartPole-v1,Acrobot-v1", "--num_envs=1", "--threads=1")
    [row] = json.loads((tmp_path / "environments.json").read_text())["rows"]
    assert row["level"] == "CartPole-v1"


def test_a_dummy_has_its_own_size_and_is_not_faster_than_it_says(tmp_path):
    names = "--level_names=dummy:30x40x3-200,dummy:30x40x3-200-wait"
    busy, waiting = rows(tmp_path, names, "--num_envs=1", "--threads=1")
    for row in (busy, waiting):
        assert row["bytes a step"] == 30 * 40 * 3
        assert 0 < row["agent steps/s"]["most"] <= 200
    assert waiting["CPU share"] < busy["CPU share"]


def test_browsers_and_desktops_are_few_and_in_one_thread():
    assert environments.sizes("vnc:Catch-v0", [1, 8, 32], [1, 2]) == [(1, 1), (4, 1)]
    assert environments.sizes("CartPole-v1", [1, 8], [1, 2]) == [(1, 1), (8, 1), (8, 2)]


def test_more_threads_than_environments_are_refused(tmp_path):
    with pytest.raises(UserError, match="--threads=4: expected some that are at most --num_envs=1"):
        rows(tmp_path, "--level_names=CartPole-v1", "--num_envs=1", "--threads=4")


def test_an_unknown_level_is_refused(tmp_path):
    with pytest.raises(UserError, match="there is no level 'CartPoles-v1'"):
        rows(tmp_path, "--level_names=CartPoles-v1")
