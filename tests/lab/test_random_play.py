"""What random play gets on a level, from which scores are counted."""

import dataclasses
import errno
import json
import threading

import psutil
import pytest

from lab.results import (
    random_play,
)
from user_error import UserError


def test_random_play_is_measured_once_for_each_world(tmp_path, monkeypatch):
    path = tmp_path / "random_play.json"
    usual = {"level_name": "CartPole-v1", "learning_rate": 0.1}
    other = usual | {"env_kwargs": "sutton_barto_reward=true"}  # -1 at the end, otherwise 0
    play = random_play.RandomPlay(path)
    play.measure([usual, other, usual | {"colour": True}])
    assert play.returns(usual)["CartPole-v1"] > 10 and play.returns(other)["CartPole-v1"] == -1
    assert list(json.loads(path.read_text())) == [
        "CartPole-v1", "CartPole-v1 env_kwargs=sutton_barto_reward=true",
    ]  # fmt: skip
    monkeypatch.setattr(random_play, "measured", None)  # it is not called again
    assert random_play.RandomPlay(path).returns(other) == {"CartPole-v1": -1.0}


def test_what_a_world_prints_is_no_result_and_one_that_ends_its_process_is_one_line():
    def measured(name: str) -> dict[str, dict[str, float]]:
        worlds = random_play.worlds({"level_name": f"tests.lab.level_that_fails:{name}"})
        given = {known: dataclasses.asdict(one) for known, one in worlds.items()}
        return random_play.measured(given, lambda _: None)

    assert measured("Prints")["tests.lab.level_that_fails:Prints"]["return"] == 1.0
    with pytest.raises(UserError, match=r"level_that_fails:Leaves: found no result; expected one"):
        measured("Leaves")


def test_random_play_without_a_finite_return_is_refused():
    level = "tests.lab.level_that_fails:Unknown"
    settings = random_play.worlds({"level_name": level})[level]
    with pytest.raises(UserError, match="Unknown: found a return of nan; expected finite"):
        random_play.play(settings)


def test_each_world_that_random_play_has_been_measured_on_is_kept(tmp_path, monkeypatch):
    def measured(settings, begun):
        if "Catch-v0" in settings:
            raise UserError("stopped")
        return {name: {"return": 1.0} for name in settings}

    monkeypatch.setattr(random_play, "measured", measured)
    path, said = tmp_path / "random_play.json", list[str]()
    names = ("CartPole-v1", "Catch-v0", "Acrobot-v1")
    with pytest.raises(UserError, match="stopped"):
        random_play.RandomPlay(path).measure([{"level_name": name} for name in names], said.append)
    assert json.loads(path.read_text()) == {"CartPole-v1": {"return": 1.0}}
    assert said[-1].startswith("random play on Catch-v0, 2 of 3, ")


def test_random_play_for_which_there_was_no_room_is_written_later(tmp_path, monkeypatch):
    measured: list[str] = []

    def measure(settings, begun):
        measured.extend(settings)
        return {name: {"return": 1.0} for name in settings}

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(random_play, "measured", measure)
    path, wanted = tmp_path / "random_play.json", [{"level_name": "CartPole-v1"}]
    play = random_play.RandomPlay(path)
    with monkeypatch.context() as patched, pytest.raises(OSError):
        patched.setattr(random_play, "write_whole", full)
        play.measure(wanted)
    play.measure(wanted)
    assert json.loads(path.read_text()) == {"CartPole-v1": {"return": 1.0}}
    assert measured == ["CartPole-v1"]  # once


def test_a_measurement_that_is_stopped_leaves_nothing(tmp_path):
    play = random_play.RandomPlay(tmp_path / "random_play.json")
    hanging = {"level_name": "tests.lab.level_that_fails:Hangs"}
    stop = threading.Timer(2.0, play.stop)
    stop.start()
    with pytest.raises(UserError, match="random play on tests.lab.level_that_fails:Hangs"):
        play.measure([hanging])
    stop.join()
    with pytest.raises(UserError):  # at once, also where it was stopped before
        play.measure([hanging])
    playing = [one.cmdline() for one in psutil.Process().children(recursive=True)]
    assert not any("lab.results.random_play" in words for words in playing)


def test_random_play_that_has_failed_is_not_tried_again(tmp_path, monkeypatch):
    tried, told = list[str](), list[UserError]()

    def measured(settings, begun):
        tried.extend(settings)
        raise UserError("no end")

    monkeypatch.setattr(random_play, "measured", measured)
    play, wanted = random_play.RandomPlay(tmp_path / "random_play.json"), {"level_name": "Catch-v0"}
    play.measure([wanted], failed=told.append)
    with pytest.raises(UserError, match="no end"):
        play.returns(wanted)
    assert tried == ["Catch-v0"] and len(told) == 1
