"""Playing by hand: keys, wait mode, the page in a real browser, and what is kept."""

import dataclasses
import json
import threading
import urllib.error
import urllib.request

import numpy as np
import pytest

from environments.dream import Dreamt
from tests import browser
from tests.world_models.catch_model import small, spec_of
from trainer import build
from world_models.networks import Sizes
from world_models.player import keys, recording
from world_models.player.server import served
from world_models.player.session import Session
from world_models.player.sides import DreamedGame, RealGame
from world_models.training.experience import read_all

ATARI = ("NOOP", "FIRE", "UP", "RIGHT", "LEFT", "UPRIGHT", "UPFIRE", "RIGHTFIRE")


class Shifted:
    """A model of Catch that says the picture stays."""

    sizes = Sizes(10, 10, 1, 3, frames=2)

    def initial_state(self, count):
        return np.zeros([count, 0])

    def predict(self, stacks, actions, state):
        return Dreamt(stacks[..., -1:], np.ones(1, np.float32), np.array([False]), state)


@pytest.fixture
def session():
    settings = small(envs_per_actor=1)
    real = RealGame(lambda n: build.actor_environment(settings, 0, n), rendered=False)
    made = Session(real, DreamedGame(Shifted()), zoom=2, wait=True)  # type: ignore[arg-type]
    yield made
    real.close()


def test_keys_make_the_actions_of_a_game():
    spec = spec_of(small())
    assert [keys.action_of(held, spec, 3) for held in (["a"], [], ["d"], ["2"])] == [0, 1, 2, 2]


@pytest.mark.parametrize(
    ("held", "meaning"),
    [
        ("", "NOOP"),
        ("w", "UP"),
        ("wd", "UPRIGHT"),
        ("wa", "LEFT"),
        ("s", "NOOP"),
        (["space"], "FIRE"),
        (["w", "space"], "UPFIRE"),
        (["w", "d", "space"], "RIGHTFIRE"),
    ],
)
def test_keys_together_make_the_nearest_action_of_an_atari_game(held, meaning):
    spec = spec_of(small())
    atari = dataclasses.replace(spec, action_meanings=ATARI)
    assert ATARI[keys.action_of(list(held), atari, len(ATARI))] == meaning


def test_while_it_waits_a_key_is_a_step(session):
    session.tick()
    assert session.real.steps == 0
    session.press("a")
    session.release("a")
    session.press("n")
    assert session.real.steps == session.model.steps == 2
    session.press("c")  # no more
    session.tick()
    assert session.real.steps == 3


def test_the_model_becomes_like_the_real_game(session):
    session.press("n")
    assert not np.array_equal(session.model.picture, session.real.picture)
    session.press("x")
    assert np.array_equal(session.model.picture, session.real.picture)
    assert session.model.total == 0 and session.model.steps == 0


def test_a_reset_starts_another_game(session):
    session.press("n")
    session.press("r")
    assert session.real.steps == 0 and session.real.total == 0
    assert np.array_equal(session.model.picture, session.real.picture)


def test_after_an_episode_both_start_again(session):
    for _ in range(9):
        session.press("n")
    assert session.real.over and abs(session.real.total) == 1 and session.model.total == 9
    session.press("n")
    assert session.real.steps == session.model.steps == 0


def test_what_was_played_is_kept(session, tmp_path):
    for _ in range(12):
        session.press("d")
    video = recording.write_video(session, tmp_path, 10)
    assert video.stat().st_size > 500
    played = json.loads(video.with_suffix(".json").read_text())
    assert played["actions"][1:] == [2] * 12 and sum(played["first"]) == 2
    recording.store_steps(session, tmp_path / "play", "Catch-v0")
    [stored] = read_all(tmp_path / "play", "Catch-v0")
    assert stored.part.steps == 11 and stored.about["by"] == "a person"
    assert stored.about["lengths"] == [9] and abs(stored.about["returns"][0]) == 1


def test_strangers_and_other_sites_get_nothing(session):
    with served(session, 0) as address:
        base = address.rsplit("/", 2)[0]
        for url, headers in (
            (f"{base}/", {}),
            (f"{base}/wrong/", {}),
            (address, {"Host": "evil.example:80"}),
        ):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(urllib.request.Request(url, headers=headers))
            assert refused.value.code == 404


@pytest.mark.skipif(browser.find() is None, reason="needs Chromium")
def test_it_is_played_by_keyboard_in_a_browser(session, tmp_path):
    def key(kind: str, code: str) -> None:
        tab.evaluate(f"dispatchEvent(new KeyboardEvent('{kind}', {{key: '{code}'}}))")

    with served(session, 0) as address, browser.Browser() as tab:
        tab.open(address)
        tab.wait_for("document.getElementById('picture').naturalWidth > 0")
        assert tab.evaluate("document.getElementById('names').innerText").split() == [
            "model",
            "real",
            "difference",
        ]
        for code in "ddn":
            key("keydown", code)
            key("keyup", code)
        tab.wait_for("document.querySelector('#real td:nth-child(4)').textContent === '3'")
        assert tab.evaluate("document.querySelector('#model td').textContent") == "3"
        assert tab.evaluate("document.getElementById('state').textContent") == "waits for keys"
        tab.screenshot(tmp_path / "player.png")
        key("keydown", "c")
        stepping = threading.Timer(0.1, session.tick)
        stepping.start()
        tab.wait_for("document.getElementById('state').textContent.startsWith('action')")
        stepping.join()
        key("keydown", "q")
        tab.wait_for("document.getElementById('state').textContent === 'ended'")
    assert (tmp_path / "player.png").stat().st_size > 2000
