"""Browsers: they end with their levels, and are started again where they are lost."""

import contextlib
import errno
import os
import signal
import socket
import time
from typing import Any

import numpy as np
import pytest

import environments
from environments import held_folders
from environments.browser import chromium, level
from environments.browser.chromium import ChromiumLost, ChromiumSilent, ChromiumUnready, Tab
from tests.environments.browser.browsers import (
    DESCRIPTION,
    PAGE,
    children,
    runs,
    undressed,
    wait_until,
)
from user_error import EndedOutside

pytestmark = pytest.mark.xdist_group("browser")


def test_many_pages_are_stepped_in_processes_and_leave_none(described):
    env = environments.make(
        f"browser:{described}/page.yaml", 2, 1, env_processes=2, width=12, height=10
    )
    assert env.reset().observation.shape == (2, 10, 12, 3)
    assert env.step(np.array([2, 0])).reward.tolist() == [10, 0]
    browsers = children()
    assert len(browsers) > 2
    env.close()
    wait_until(lambda: not any(map(runs, browsers)))


def test_a_browser_that_is_stopped_has_ended_outside_and_leaves_nothing(described):
    env = undressed(f"browser:{described}/page.yaml")
    browsers = children()
    os.killpg(env._tab._process.pid, signal.SIGSTOP)
    look = ("Runtime.evaluate", {"expression": "1"})
    with pytest.raises(EndedOutside, match="Chromium does not answer: nothing for 0.2 s"):
        env._tab.results([look], 0.2)
    with contextlib.suppress(TimeoutError):  # as those do who can wait longer
        env._tab.results([look], 0.2)
    env.close()
    assert len(browsers) > 2
    wait_until(lambda: not any(map(runs, browsers)))


@pytest.mark.parametrize("more", ["", "time: real", "reset: presses = 0"])
def test_a_page_that_is_left_by_a_link_is_loaded_again_and_its_episode_cut(described, more):
    (described / "other.html").write_text("elsewhere")
    (described / "link.html").write_text(
        PAGE + "<a href='other.html' style='position: absolute; left: 0; top: 0'>XXXXXX</a>"
    )
    (described / "link.yaml").write_text(
        DESCRIPTION.replace("page.html", "link.html").replace("click 30,20", "click 5,5")
        + f"observe: '[presses]'\nready: typeof presses === 'number'\n{more}\n"
    )
    env = undressed(f"browser:{described}/link.yaml")
    with contextlib.closing(env):
        for _ in range(2):
            assert env.reset()[0].tolist() == [0]
            assert env.step(1)[:4] == ([1], 1.0, False, False)
            until, truncated = time.monotonic() + 60, False
            env.step(2)
            while not truncated:
                assert time.monotonic() < until
                seen, reward, over, truncated, _ = env.step(0)
                assert seen.tolist() == [1] and not (reward or over)


@pytest.mark.parametrize("more", ["", "time: real", "reset: begun = true"])
def test_a_goal_on_another_page_is_rewarded_and_its_episode_ends(described, more):
    link = "<a href='goal.html' style='position: absolute; left: 0; top: 0'>XXXXXX</a>"
    (described / "way.html").write_text(f"<script>var points = 0;</script>{link}")
    (described / "goal.html").write_text("<script>var points = 5;</script>")
    (described / "way.yaml").write_text(
        "{url: way.html, score: points, end: points > 0, actions: [none, 'click 5,5'],"
        f" width: 60, height: 40, step_ms: 50, observe: '[points]', {more}}}"
    )
    env = undressed(f"browser:{described}/way.yaml")
    with contextlib.closing(env):
        for _ in range(2):
            assert env.reset()[0].tolist() == [0]
            until = time.monotonic() + 60
            found = env.step(1)[:4]
            while not found[2]:
                assert time.monotonic() < until
                assert found == ([0], 0, False, False)
                found = env.step(0)[:4]
            assert found == ([5], 5, True, False)


def test_a_browser_that_ends_is_started_again_and_its_episode_cut(described, monkeypatch, capfd):
    monkeypatch.setattr(level, "MOST_STARTS", 2)
    env = undressed(f"browser:{described}/page.yaml")
    with contextlib.closing(env):
        before = env.reset()[0]
        os.killpg(env._tab._process.pid, signal.SIGKILL)
        seen, reward, over, truncated, _ = env.step(1)
        assert (seen == before).all() and (reward, over, truncated) == (0, False, True)
        told = capfd.readouterr().err
        assert told.count("\n") == 1 and "Chromium has ended" in told and "started again" in told
        env.reset()
        assert env.step(1)[1] == 1
        os.killpg(env._tab._process.pid, signal.SIGKILL)
        with pytest.raises(EndedOutside, match="Chromium has ended .*after 2 starts"):
            env.reset()


def test_a_browser_that_cannot_be_started_again_is_tried_as_often_as_one_that_ends(
    described, monkeypatch, capfd
):
    env = undressed(f"browser:{described}/page.yaml")
    begin = Tab._begin
    failures = iter([ChromiumLost("Chromium has ended (no room)"), ChromiumSilent("nothing")])

    def failing(tab: Tab, width: int, height: int) -> None:
        if error := next(failures, None):
            raise error
        begin(tab, width, height)

    with contextlib.closing(env):
        env.reset()
        monkeypatch.setattr(Tab, "_begin", failing)
        os.killpg(env._tab._process.pid, signal.SIGKILL)
        assert env.step(1)[1:4] == (0, False, True)
        told = capfd.readouterr().err.splitlines()
        assert len(told) == 3 and all("started again" in line for line in told)
        assert "does not start: Chromium has ended (no room);" in told[1]
        env.reset()
        assert env.step(1)[1] == 1
        os.killpg(env._tab._process.pid, signal.SIGKILL)
        with pytest.raises(EndedOutside, match="Chromium has ended .*after 4 starts"):
            env.reset()


def test_a_full_disk_is_a_mistake_at_first_and_then_costs_a_start(
    described, monkeypatch, capfd, one_line
):
    env, make_new = undressed(f"browser:{described}/page.yaml"), held_folders.make_new
    full = [True, True]

    def failing(prefix: str) -> Any:
        if full:
            full.pop()
            raise OSError(errno.ENOSPC, "No space left on device")
        return make_new(prefix)

    monkeypatch.setattr(held_folders, "make_new", failing)
    with contextlib.closing(env):
        told = "does not start", "No space left on device"
        one_line(lambda: undressed(f"browser:{described}/page.yaml"), *told)
        env.reset()
        os.killpg(env._tab._process.pid, signal.SIGKILL)
        assert env.step(1)[1:4] == (0, False, True)
        lines = capfd.readouterr().err.splitlines()
        assert len(lines) == 2 and all("started again" in line for line in lines)
        assert all(part in lines[1] for part in told)
        env.reset()
        assert env.step(1)[1] == 1


def test_a_page_that_cannot_be_loaded_once_is_loaded_in_another_browser(
    described, monkeypatch, capfd
):
    env, call, refused = undressed(f"browser:{described}/page.yaml"), Tab.call, [True]

    def failing(tab: Tab, method: str, **parameters: Any) -> Any:
        if method == "Page.navigate" and refused:
            refused.pop()
            return {"errorText": "net::ERR_CONNECTION_REFUSED"}
        return call(tab, method, **parameters)

    monkeypatch.setattr(Tab, "call", failing)
    with contextlib.closing(env):
        env.reset()
        assert env.step(1)[1] == 1
        told = capfd.readouterr().err
        assert told.count("\n") == 1
        assert "page.html cannot be loaded (net::ERR_CONNECTION_REFUSED); it is started" in told


def test_a_page_that_is_never_there_whole_loses_its_browser_unless_a_link_led_to_it(
    described, monkeypatch
):
    env = undressed(f"browser:{described}/page.yaml")
    with contextlib.closing(env):
        monkeypatch.setattr(chromium, "ANSWERS_WITHIN_S", 0.0)
        monkeypatch.setattr(Tab, "evaluate", lambda *_: False)
        with pytest.raises(ChromiumUnready, match="page.html never had ready$"):
            env._tab.wait_until("ready", env._pause, "page.html")
        assert env._look_elsewhere() is None


def test_a_page_that_does_not_come_is_a_mistake_at_first_and_then_loaded_in_another_browser(
    described, monkeypatch, capfd, one_line
):
    env, call, silent = undressed(f"browser:{described}/page.yaml"), Tab.call, [True, True]

    def failing(tab: Tab, method: str, **parameters: Any) -> Any:
        if method == "Page.navigate" and silent:
            silent.pop()
            raise ChromiumSilent("nothing for 30 s")
        return call(tab, method, **parameters)

    monkeypatch.setattr(Tab, "call", failing)
    with contextlib.closing(env):
        one_line(lambda: undressed(f"browser:{described}/page.yaml"), "does not answer within 30 s")
        assert not capfd.readouterr().err
        env.reset()
        assert env.step(1)[1] == 1
        told = capfd.readouterr().err
        assert told.count("\n") == 1 and "page.html does not answer within 30 s; it is" in told


def test_a_page_whose_script_never_ends_is_named(described, monkeypatch, one_line):
    told = "Chromium does not answer: nothing for 30 s"

    def silent(tab: Tab, expression: str) -> Any:
        raise ChromiumSilent(told)

    monkeypatch.setattr(Tab, "evaluate", silent)
    one_line(lambda: undressed(f"browser:{described}/page.yaml"), f"/page.html: {told}.")


@pytest.mark.parametrize("kind", ["virtual", "real"])
def test_a_page_that_waits_for_a_picture_is_not_loaded_whole(
    described, kind, monkeypatch, one_line
):
    monkeypatch.setattr(chromium, "ANSWERS_WITHIN_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = "{}:{}".format(*silent.getsockname())
        (described / "waits.html").write_text(f"{PAGE}<img src='http://{address}/'>")
        (described / "waits.yaml").write_text(
            DESCRIPTION.replace("page.html", "waits.html") + f"time: {kind}"
        )
        told = "waits.html is not loaded whole within 1 s."
        one_line(lambda: undressed(f"browser:{described}/waits.yaml"), told)


def test_a_new_browser_that_shows_nothing_at_once_is_given_its_clock(described, monkeypatch):
    env, results, late = undressed(f"browser:{described}/page.yaml"), Tab.results, [True]

    def shown(tab: Tab, commands: Any, *within_s: float) -> Any:
        if late and level._SHOT in commands:
            late.pop()
            raise ChromiumSilent("nothing for 0.25 s")
        return results(tab, commands, *within_s)

    with contextlib.closing(env):
        env.reset()
        os.killpg(env._tab._process.pid, signal.SIGKILL)
        monkeypatch.setattr(Tab, "results", shown)
        assert env.step(1)[3]
        assert env.render().shape == (40, 60, 3) and not late  # as a desktop shows it then


@pytest.mark.parametrize("observed", ["[1, 2].slice(presses)", "[ticks, presses ? NaN : 1]"])
def test_what_is_observed_instead_of_a_picture_stays_so_many_numbers(described, observed, one_line):
    file = described / "changing.yaml"
    file.write_text(DESCRIPTION + f"observe: '{observed}'")
    env = undressed(f"browser:{file}")
    with contextlib.closing(env):
        env.reset()
        one_line(lambda: env.step(1), f"observe ({observed})", "expected a list of 2 numbers")


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("ready: nothing.there", "nothing is not defined"),
        ("observe: nothing.there", "nothing is not defined"),
        ("url: http://127.0.0.1:9/", "cannot be loaded"),
    ],
)
def test_a_page_that_cannot_be_played_leaves_no_browser(
    described, entry, told, one_line, monkeypatch
):
    monkeypatch.setattr(chromium, "ANSWERS_WITHIN_S", 5.0)  # it is waited for what is not there
    before = children()
    file = described / "unplayable.yaml"
    key = entry.split(":")[0]
    lines = [line for line in DESCRIPTION.splitlines() if not line.startswith(key)]
    file.write_text("\n".join([*lines, entry]))
    one_line(lambda: undressed(f"browser:{file}"), told)
    wait_until(lambda: not any(map(runs, set(children()) - set(before))))


def test_a_browser_that_shows_no_page_is_ended(described, monkeypatch, one_line):
    before, call = children(), Tab.call

    def failing(tab: Tab, method: str, **parameters: Any) -> Any:
        if method == "Target.attachToTarget":
            raise ChromiumLost("Chromium has failed (No target with given id found)")
        return call(tab, method, **parameters)

    monkeypatch.setattr(Tab, "call", failing)
    one_line(lambda: undressed(f"browser:{described}/page.yaml"), "does not start", "No target")
    wait_until(lambda: not any(map(runs, set(children()) - set(before))))
