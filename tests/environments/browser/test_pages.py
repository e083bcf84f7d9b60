"""Web pages as levels, in a real Chromium: own pages, MiniWoB++, the dinosaur."""

import contextlib
import importlib.util
import os
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import environments
from environments import names
from environments.browser import level
from environments.browser import page as pages
from environments.names import find
from environments.python.levels import make_undressed
from environments.realtime.actions import Action
from environments.realtime.keys import POINTER
from environments.remote.window import KeyEvent
from environments.remote.worlds import LevelWorld
from environments.view import View
from tests.environments.browser.browsers import DESCRIPTION, undressed

pytestmark = pytest.mark.xdist_group("browser")


def test_a_page_goes_on_exactly_as_long_as_an_action_lasts(described):
    env = undressed(f"browser:{described}/numbers.yaml")
    with contextlib.closing(env):
        for _ in range(2):
            start = env.reset()[0]
            seen = [env.step(0)[0] for _ in range(5)]
            assert np.diff([start[0], *(one[0] for one in seen)]).tolist() == [5] * 5


def test_actions_in_real_time_end_at_a_steady_pace(described, tmp_path, monkeypatch):
    page = tmp_path / "real.yaml"
    page.write_text(DESCRIPTION.replace("page.html", str(described / "page.html")) + "time: real\n")
    env = undressed(f"browser:{page}")
    ends: list[float] = []
    watch = env._watch

    def noted(until: float) -> None:
        ends.append(until)
        watch(until)

    monkeypatch.setattr(env, "_watch", noted)
    with contextlib.closing(env):
        env.reset()
        for number in range(6):
            if number == 3:  # a pause of six actions: nothing hurries afterwards
                time.sleep(0.3)
            env.step(0)
            assert time.monotonic() >= ends[-1]
    between = np.diff(ends)
    assert (between >= 0.05 - 1e-9).all() and between[3] >= 0.3


@pytest.mark.parametrize("kind", ["virtual", "real"])
def test_a_page_that_goes_on_tells_whether_it_was_left_alone(
    described, tmp_path, monkeypatch, kind
):
    monkeypatch.setattr(level, "MOST_LATE_S", 60.0)
    page = tmp_path / "left.yaml"
    page.write_text(
        DESCRIPTION.replace("page.html", str(described / "page.html")) + f"time: {kind}\n"
    )
    env = undressed(f"browser:{page}")
    with contextlib.closing(env):
        env.reset()
        env.step(0)
        assert not env.was_left_alone()
        env._due -= 70.0
        assert env.step(1)[1] == 1  # as a desktop shows it
        assert env.was_left_alone() == (kind == "real")
        env._due -= 70.0
        env.step(0)
        assert not env.was_left_alone()  # whoever plays takes so long
        env.step(0)
        env._due -= 70.0
        env.step(0)
        assert env.was_left_alone() == (kind == "real")


def test_actions_are_keys_and_clicks_and_scores_are_rewards(described):
    env = undressed(f"browser:{described}/page.yaml")
    with contextlib.closing(env):
        picture, _ = env.reset()
        assert picture.shape == (40, 60, 3) and not picture.any()
        assert env.step(1)[1:4] == (1, False, False)
        assert env.step(1)[1] == 0  # it is held
        picture, reward, *_ = env.step(2)
        assert reward == 10 and picture.all()
        assert env.step(3)[1] == 1
        assert env.step(3)[1:4] == (1, True, False)
        assert not env.reset()[0].any()


def test_an_action_set_replaces_the_actions_of_a_page(described):
    name = f"browser:{described}/page.yaml"
    known = [{*one} for one in environments.spec(name).keys]
    assert known == [set(), {"space"}, {POINTER}, {"space"}]
    assert environments.spec(name, action_set="arrows").keys[1:3] == ({"left"}, {"right"})
    level = find(name)
    assert isinstance(level, names.BrowserLevel)
    env = make_undressed(level, name, View(action_set="pointer_grid"))
    with contextlib.closing(env):
        env.reset()
        assert env.action_space.n == 1 + 6 * 4  # type: ignore[attr-defined]
        assert env.unwrapped.step(Action(click=(30, 20)))[1] == 10  # as on a desktop


def test_text_is_written_and_things_are_dragged(described):
    env = undressed(f"browser:{described}/desk.yaml")
    with contextlib.closing(env):
        env.reset()
        assert env.action_space.n == 1 + 2 * 3 * 2 + 40 + 26  # type: ignore[attr-defined]
        taps = [
            ("shift", "a"),
            ("b",),
            ("shift", "7"),
            ("7",),
            ("x",),
            ("backspace",),
            ("space",),
            ("return",),
        ]
        for action in (Action(click=(10, 10)), *(Action(tapped=tap) for tap in taps)):
            env.step(action)
        assert env._tab.evaluate("field.value") == "Ab&7 " and env._tab.evaluate("entered") == 1
        env.step(Action(tapped=("ctrl", "a")))  # marks all
        env.step(Action(tapped=("z",)))
        assert env._tab.evaluate("field.value") == "z"
        for x in (10, 30, 50):
            assert env.step(Action(drag=(x, 30)))[1] == (x > 10)
        assert env.step(Action())[1] == 100  # it lets go where it was last
        assert env.step(Action(drag=(10, 30)))[1] == 0
        assert env.step(Action(click=(50, 30)))[1] != 0  # lets go, then clicks elsewhere


@pytest.mark.parametrize("kind", ["virtual", "real"])
def test_dialogs_of_a_page_are_answered(described, kind):
    (described / "asks.html").write_text(
        "<script>let said = 0; addEventListener('keydown', () => {"
        " alert('a'); said = confirm('b') ? Number(prompt('c', '5')) : 1; });</script>"
    )
    (described / "asks.yaml").write_text(
        "{url: asks.html, score: said, end: 'false', actions: [none, space], step_ms: 100,"
        f" time: {kind}}}"
    )
    env = undressed(f"browser:{described}/asks.yaml")
    with contextlib.closing(env):
        env.reset()
        env.step(1)
        until = time.monotonic() + 60
        while env._score != 5:
            assert time.monotonic() < until
            env.step(0)


@pytest.mark.parametrize("more", ["", ", reset: location.reload()"])
@pytest.mark.parametrize("kind", ["virtual", "real"])
def test_a_page_is_played_once_its_own_work_has_made_what_it_needs(described, kind, more):
    (described / "late.html").write_text(
        "<script>setTimeout(() => { window.game = {points: 7}; }, 200);</script>"
    )
    (described / "late.yaml").write_text(
        "{url: late.html, ready: game !== undefined, score: game.points, end: 'false',"
        f" actions: [none, space], time: {kind}{more}}}"
    )
    env = undressed(f"browser:{described}/late.yaml")
    with contextlib.closing(env):
        for _ in range(3):
            env.reset()
            assert env._score == 7
            env.step(0)


def test_a_page_that_is_always_busy_does_not_stop_the_clock(described):
    env = undressed(f"browser:{described}/busy.yaml")
    with contextlib.closing(env):
        env.reset()
        assert [env.step(0)[1] for _ in range(4)] == [5] * 4


def test_a_key_that_is_tapped_in_two_frames_running_is_pressed_twice(described):
    world = LevelWorld(f"browser:{described}/page.yaml", View(), 0.0, 1)
    down, up = (KeyEvent("space", pressed, 0.0) for pressed in (True, False))
    with contextlib.closing(world):
        frames = [[down, up], [down, up], [], [down]]
        assert [world.frame(keys).reward for keys in frames] == [1, 1, 0, 1]
        world.reset(time.sleep)
        assert world.frame([]).reward == 1  # it is still held


def test_letters_that_are_tapped_on_a_desktop_are_written_as_often(described):
    world = LevelWorld(f"browser:{described}/desk.yaml", View(), 0.0, 1)
    with contextlib.closing(world):
        world.frame([KeyEvent(POINTER, True, 0.0, (10, 10))])
        for keys in ("a", "a", "shift+a", "shift+a", "a", "b"):
            pressed = keys.split("+")
            downs = [KeyEvent(key, True, 0.0) for key in pressed]
            world.frame([*downs, *(KeyEvent(key, False, 0.0) for key in reversed(pressed))])
        page: Any = world._env.unwrapped
        assert page._tab.evaluate("field.value") == "aaAAab"


@pytest.mark.extras
@pytest.mark.skipif(not shutil.which("Xtigervnc"), reason="needs TigerVNC")
@pytest.mark.parametrize("action, reward", [(1, 1.0), (2, 10.0), (3, 1.0)])
def test_a_page_on_a_desktop_gets_keys_and_clicks(described, action, reward):
    env = environments.make(f"vnc:browser:{described}/page.yaml", 1, 1, fps=10, width=60, height=40)
    with contextlib.closing(env):
        env.reset()
        until, total = time.monotonic() + 100, 0.0
        while total < reward and time.monotonic() < until:
            playing = env._playing[0]  # type: ignore[attr-defined]
            total += float(env.step(np.array([action if playing else 0])).reward[0])
        assert total >= reward and total % reward == 0


@pytest.mark.extras
@pytest.mark.timeout(600)
@pytest.mark.skipif(not shutil.which("Xtigervnc"), reason="needs TigerVNC")
def test_the_dinosaur_is_played_on_a_desktop():
    env = environments.make("vnc:browser:dino", 1, 1, width=75, height=19)
    with contextlib.closing(env):
        assert env.spec.action_space.n == 3  # type: ignore[attr-defined]
        env.reset()
        until = time.monotonic() + 300
        episodes: list[Any] = []
        while len(episodes) < 2 and time.monotonic() < until:
            env.step(np.zeros(1, int))
            episodes += env.episodes()
        assert len(episodes) == 2 and all(one.raw_return > 0 for one in episodes)


def test_a_task_of_miniwob_is_clicked_at():
    env = undressed("browser:miniwob/click-test-v1")
    with contextlib.closing(env):
        for seed in range(3):
            picture, _ = env.reset(seed=seed)
            assert picture.shape == (210, 160, 3)
            again, _ = env.reset(seed=seed)
            assert (picture == again).all()
            box = env._tab.evaluate(
                "(r => [r.x, r.y, r.width])(document.getElementById('subbtn')"
                ".getBoundingClientRect())"
            )
            x, y = (int((at + box[2] / 2) // 20) for at in (box[0], box[1] - 50))
            outside = (1 + 7 * 8) if (x, y) != (0, 7) and x > 3 else 8
            _, reward, over, _, _ = env.step(outside)
            assert (reward, over) == (0, False)
            _, reward, over, _, _ = env.step(1 + y * 8 + x)
            assert over and reward == pytest.approx(0.98, abs=0.021)
        env.reset(seed=0)
        ends = [env.step(0)[1:3] for _ in range(49)]
        assert ends[-1] == (-1, True) and not any(over for _, over in ends[:-1])  # time is over


def test_a_task_of_miniwob_is_written_into():
    name = "browser:miniwob/enter-text-v1"
    level = find(name)
    assert isinstance(level, names.BrowserLevel)
    env: Any = make_undressed(level, name, View(action_set="desktop"))
    known = env.unwrapped.desktop_actions
    with contextlib.closing(env):
        env.reset(seed=1)
        asked = env._tab.evaluate("document.getElementById('query').textContent").split('"')[1]
        taps = [("shift", one.lower()) if one.isupper() else (one,) for one in asked]
        middles = [
            env._tab.evaluate(
                f"(r => [r.x + r.width / 2, r.y + r.height / 2])(document.querySelector('{one}')"
                ".getBoundingClientRect())"
            )
            for one in ("#tt", "#subbtn")
        ]
        field, button = ((int(x // 20) * 20 + 10, int(y // 20) * 20 + 10) for x, y in middles)
        done = [Action(click=field), *(Action(tapped=tap) for tap in taps), Action(click=button)]
        rows = [env.step(known.index(action)) for action in done]
        assert [row[2] for row in rows] == [False] * (len(rows) - 1) + [True]
        assert rows[-1][1] > 0.5


@pytest.mark.extras
@pytest.mark.timeout(1800)
def test_every_task_of_miniwob_is_played():
    folder = Path(str(importlib.util.find_spec("miniwob").origin)).parent  # type: ignore[union-attr]
    tasks = sorted(file.stem for file in (folder / "html" / "miniwob").glob("*.html"))
    assert len(tasks) > 100
    random = np.random.default_rng(0)
    for task in tasks:
        name = f"browser:miniwob/{task}-v1"
        level = find(name)
        assert isinstance(level, names.BrowserLevel)
        env: Any = make_undressed(level, name, View(action_set="desktop"))
        with contextlib.closing(env):
            assert env.reset(seed=0)[0].std() > 0, task
            for _ in range(30):
                _, reward, over, _, _ = env.step(random.integers(env.action_space.n))
                assert over or not reward, task
                if over:
                    break


def test_the_dinosaur_runs_and_falls():
    env = undressed("browser:dino")
    with contextlib.closing(env):
        picture, _ = env.reset()
        assert picture.shape == (150, 600, 3) and picture.std() > 0
        total, over, steps = 0.0, False, 0
        while not over and steps < 1000:
            _, reward, over, _, _ = env.step(0)
            total, steps = total + reward, steps + 1
        assert over and total > 0
        env.reset()
        assert not env.step(0)[2]


def test_a_game_of_the_dinosaur_that_is_cut_begins_anew():
    env = undressed("browser:dino")
    with contextlib.closing(env):
        env.reset()
        for _ in range(3):
            while env._score < 20:
                assert not env.step(0)[2]
            env.reset()
            assert env._score < 10 and not env.step(0)[2]


def test_mistakes_are_told_in_one_line(described, tmp_path, one_line, monkeypatch):
    one_line(lambda: pages.find("miniwob/click-tes-v1"), "click-tes-v1", "Did you mean")
    one_line(lambda: pages.find("sino"), "browser:sino", "expected dino")
    file = tmp_path / "wrong.yaml"
    for wrong, told in (
        ("a: [", "cannot be read"),
        (DESCRIPTION + "reset: 2026-13-01", "cannot be read (month must be in 1..12"),
        ("url: x", "score is missing"),
        (DESCRIPTION + "hight: 3", "'hight'. Did you mean height"),
        (DESCRIPTION.replace("40", "high"), "'high': expected a whole number"),
        (DESCRIPTION.replace("40", "true"), "height: True: expected a whole number"),
        (DESCRIPTION.replace("presses >= 3", "false"), "end: False: expected text, in quotes"),
        (DESCRIPTION + "observe: [presses]", "observe: ['presses']: expected text, in quotes"),
        (DESCRIPTION + "height: 30", "height is given twice"),
        (DESCRIPTION.replace('"click 30,20"', "click 30,20"), "in pixels, all of it in quotes"),
        (DESCRIPTION + "time: slow", "expected virtual or real"),
        (DESCRIPTION.replace("step_ms: 50", "step_ms: 0"), "step_ms: 0: expected a number above 0"),
    ):
        file.write_text(wrong)
        one_line(lambda: pages.read(str(file)), str(file), told)
    file.write_bytes("# für zwei".encode("latin-1"))
    one_line(lambda: pages.read(str(file)), str(file), "cannot be read", "not text in UTF-8")
    file = described / "script.yaml"
    file.write_text(DESCRIPTION.replace("presses >= 3", "nothing >= 3"))
    env = undressed(f"browser:{file}")
    with contextlib.closing(env):
        one_line(env.reset, "nothing is not defined")
    file.write_text(DESCRIPTION.replace("presses + 10 * clicks", "document.nothing"))
    env = undressed(f"browser:{file}")
    with contextlib.closing(env):
        one_line(env.reset, "its score (document.nothing) is not a number")
    file.write_text(DESCRIPTION.replace("presses >= 3", "1 < 2"))
    monkeypatch.setattr(level, "ANSWERS_WITHIN_S", 0.5)
    env = undressed(f"browser:{file}")
    with contextlib.closing(env):
        one_line(env.reset, "page.html", "still over 0.5 s after a reset", "end (1 < 2)")
    file.write_text(DESCRIPTION + "observe: presses")
    one_line(lambda: undressed(f"browser:{file}"), "observe (presses) is 0", "a list of numbers")
    broken = tmp_path / "chromium-headless-shell"
    broken.write_text("#!/bin/sh\necho no usable sandbox >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    one_line(lambda: undressed(f"browser:{file}"), "does not start", "(no usable sandbox)")
    monkeypatch.setenv("PATH", "/nowhere")
    one_line(lambda: undressed("browser:dino"), "bin/setup --extra=browser")
