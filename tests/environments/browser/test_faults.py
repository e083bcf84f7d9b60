"""Pages that ask for ever, crash, open windows, or are left while they are looked at."""

import contextlib

import pytest

from environments.browser.chromium import ChromiumSilent, PageLeft, Tab
from environments.realtime.actions import Action
from tests.environments.browser.browsers import DESCRIPTION, PAGE, undressed, wait_until

pytestmark = pytest.mark.xdist_group("browser")


def made(folder, name, script, more=""):
    """The level of a page with a script of its own."""
    (folder / f"{name}.html").write_text(PAGE + f"<script>{script}</script>")
    (folder / f"{name}.yaml").write_text(
        DESCRIPTION.replace("page.html", f"{name}.html") + f"{more}\n"
    )
    return undressed(f"browser:{folder}/{name}.yaml")


def test_a_page_that_asks_again_and_again_is_one_that_does_not_answer(described):
    env = made(described, "asks", "onmousedown = () => { while (confirm('again?')); };")
    with contextlib.closing(env):
        env.reset()
        env._enter(Action(click=(30, 20)))
        with pytest.raises(ChromiumSilent, match="nothing for 0.5 s"):
            env._tab.results([("Runtime.evaluate", {"expression": "1"})], 0.5)


@pytest.mark.parametrize("more", ["", "time: real", "whole_browser: true"])
def test_further_windows_are_closed_and_the_page_goes_on(described, more):
    env = made(described, "opens", "onmousedown = () => open('page.html');", more)
    with contextlib.closing(env):
        env.reset()

        def windows() -> int:
            told = env._tab.call("Target.getTargets")["targetInfos"]
            return sum(one["type"] == "page" for one in told)

        before = windows()
        assert [env.step(action)[1:4] for action in (2, 0, 2)] == [
            (10, False, False),
            (0, False, False),
            (10, False, False),
        ]
        wait_until(lambda: windows() == before)


def test_nothing_is_downloaded(described, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    link = "<a download href='data:text/plain,1' style='position: absolute; top: 0'>XXXXXX</a>"
    script = f"document.body.insertAdjacentHTML('beforeend', `{link}`)"
    env = made(described, "gives", script, "time: real\nwhole_browser: true")
    with contextlib.closing(env):
        env.reset()
        env.step(0)
        for _ in range(4):
            env._enter(Action(click=(25, 5)))
            env.step(0)
    assert not list(tmp_path.rglob("Downloads/*"))


def test_a_page_that_crashes_is_noticed_at_once(described, capfd):
    env = undressed(f"browser:{described}/page.yaml")
    with contextlib.closing(env):
        env.reset()
        env._tab.send([("Page.crash", {})])
        assert env.step(1)[1:4] == (0, False, True)
        assert "Chromium has failed (its page has crashed)" in capfd.readouterr().err
        env.reset()
        assert env.step(1)[1] == 1


def test_a_page_that_is_left_while_it_is_looked_at_costs_no_browser(described, monkeypatch, capfd):
    env, evaluate = undressed(f"browser:{described}/page.yaml"), Tab.evaluate
    left: list[str] = []

    def leaving(tab: Tab, expression: str) -> object:
        if left and left[-1] in expression:
            left.pop()
            raise PageLeft("Chromium has failed (Inspected target navigated or closed)")
        return evaluate(tab, expression)

    monkeypatch.setattr(Tab, "evaluate", leaving)
    with contextlib.closing(env):
        for place in ("impalaPlays = true", "clicks"):  # before the reset, and after it
            left.append(place)
            env.reset()
            assert not left and env.step(1)[1:4] == (1, False, False)
        left[:] = ["readyState", "clicks"]  # and the page to which a link seems to have led
        assert env.step(3)[1:4] == (1, False, False)
        told = capfd.readouterr().err
        assert not (left or told)
