"""A full disk while a person plays, in the thread that plays and in that of the page."""

import json
import threading
import urllib.request

import pytest

from tests.trainer.disks import files_limited_to
from tests.world_models.test_player import recorded
from trainer.storage.played import read_all
from user_error import UserError
from world_models import play
from world_models.player.server import served
from world_models.player.session import Session

TINY = 100  # bytes: no file of play is so small


@pytest.fixture(autouse=True)
def short_parts(monkeypatch):
    monkeypatch.setattr("world_models.player.recording.ROWS_OF_PART", 7)


def press(address: str, key: str) -> int:
    """Sends a key as the page does; returns the status."""
    message = json.dumps({"key": key, "down": True}).encode()
    with urllib.request.urlopen(f"{address}key", data=message) as answer:
        return answer.status


def test_steps_that_cannot_be_stored_stay_in_hand(tmp_path):
    recording, session, real = recorded(tmp_path)
    for _ in range(6):
        session.press("d")
    with files_limited_to(TINY), pytest.raises(UserError, match="The game ends here; make room"):
        session.press("d")
    assert not recording.parts
    recording.close()
    real.close()
    [stored] = read_all(tmp_path / "play", "Catch-v0")
    assert stored.part.steps == 7


def test_steps_that_are_lost_are_named(tmp_path):
    recording, session, real = recorded(tmp_path)
    for _ in range(3):
        session.press("d")
    with files_limited_to(TINY), pytest.raises(UserError, match="newest 3 steps are lost"):
        recording.close()
    real.close()


def test_what_fails_in_the_page_s_thread_ends_the_game_in_the_player_s(tmp_path):
    recording, session, real = recorded(tmp_path)
    with served(session, 0) as address:
        for _ in range(6):
            press(address, "d")
        with files_limited_to(TINY):
            assert press(address, "d") == 200
        assert session.ended
        with pytest.raises(UserError, match="could not be written"):
            play._tick(session, 10)
    recording.close()
    real.close()
    assert sum(one.part.steps for one in read_all(tmp_path / "play", "Catch-v0")) == 7


def test_all_keys_of_a_page_come_from_one_thread_that_lasts(tmp_path, monkeypatch):
    recording, session, real = recorded(tmp_path)
    threads = []
    reset = real.reset

    def seen() -> None:
        threads.append(threading.current_thread())
        reset()

    monkeypatch.setattr(real, "reset", seen)
    with served(session, 0) as address:
        for _ in range(3):
            press(address, "r")
        assert len(threads) == 3 and len(set(threads)) == 1 and threads[0].is_alive()
    recording.close()
    real.close()


def test_lines_of_steps_that_are_missing_are_told(tmp_path, monkeypatch, capsys):
    def play_two(session: Session, fps: float) -> None:
        with files_limited_to(TINY):
            session.press("d")
        session.press("d")

    monkeypatch.setattr("world_models.play._tick", play_two)
    words = ["--level_name=Catch-v0", "--wait", "--browser", f"--videos={tmp_path}"]
    assert play.main(words) == 0
    [steps] = tmp_path.glob("*.jsonl")
    assert [json.loads(line)["first"] for line in steps.open()] == [True, False]
    assert f"warning: {steps} is not complete (" in capsys.readouterr().err
