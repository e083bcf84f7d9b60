"""Levels as worlds in real time: what they are refused for, and how their actions are counted."""

from argparse import Namespace
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import environments
from environments.browser import page as pages
from environments.names import RealTimeLevel
from environments.realtime import game_file, levels, messages
from environments.realtime.actions import Action
from environments.realtime.keys import KEYSYMS
from environments.realtime.level_keys import keys_of, made
from environments.remote.serving import Game, Record
from environments.remote.window import KeyEvent
from environments.remote.worlds import LevelWorld
from environments.view import View

HERE = "tests.environments.realtime.test_levels"
PONG = "PongNoFrameskip-v4"


class FromFive(gymnasium.Env):
    """Counts its actions from 5; the reward is the action."""

    metadata = {"render_modes": ["rgb_array"]}
    observation_space: Any = spaces.Box(0, 255, (8, 8, 3), np.uint8)
    action_space: Any = spaces.Discrete(3, start=5)
    keys_of_actions: Any = (("left",), (), ("right",))

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self.render(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        return self.render(), float(action), False, False, {}

    def render(self) -> Any:
        return np.zeros([8, 8, 3], np.uint8)


def test_actions_that_are_not_counted_from_0_have_keys():
    world = LevelWorld(f"{HERE}:FromFive", View(), 0.0, 1)
    assert world.frame([]).reward == 6
    assert world.frame([KeyEvent("right", True, 0.0)]).reward == 7
    world.close()


class OfOne(FromFive):
    """An episode has one step."""

    def step(self, action: Any) -> Any:
        return self.render(), float(action), True, False, {}


DOWN, UP = KeyEvent("right", True, 0.0), KeyEvent("right", False, 0.0)


@pytest.mark.parametrize(
    ("level", "ticks"),
    [
        ("FromFive", [([DOWN], False), ([UP], True), ([], False)]),
        ("OfOne", [([DOWN], False), ([UP], False), ([], True), ([], False)]),
    ],
)
def test_a_key_that_is_released_between_episodes_is_up_in_the_next_one(level, ticks):
    world, waiting, rewards = LevelWorld(f"{HERE}:{level}", View(), 1000.0, 1), [*ticks], []
    rewarder: Any = Namespace(wanted=False)

    def keys_until(moment: float) -> list[KeyEvent]:
        keys, rewarder.wanted = waiting.pop(0)
        if not waiting:
            game.stop()
        return keys

    def tell(message: messages.Message) -> None:
        rewards.extend([message.body["reward"]] if message.method == messages.REWARD else [])

    rewarder.tell, rewarder.reset_is_wanted = tell, lambda episode: rewarder.wanted
    window: Any = Namespace(keys_until=keys_until, show=lambda picture: 0.0)
    game = Game(world, window, Record(""), "desktop")
    game.run(rewarder)
    world.close()
    assert rewards == [7, 6]


@pytest.mark.parametrize(
    "names, told",
    [
        (("left", "", "right"), "'left': expected a tuple of names"),
        ((("Left",), (), ("right",)), "there is no key 'Left'. Did you mean left"),
    ],
)
def test_the_keys_that_a_level_names_are_known_ones(names, told, monkeypatch, one_line):
    monkeypatch.setattr(FromFive, "keys_of_actions", names)
    env = made(f"{HERE}:FromFive", View())
    one_line(lambda: keys_of(env), "keys_of_actions", told)


@pytest.mark.parametrize(
    "own, meanings, keys",
    [
        ((), ["NOOP", "RIGHTFIRE", "UP"], ["", "right+space", "up"]),
        ((), ["NOOP", "jump", "right"], ["", "1", "2"]),
        ((), ["NOOP", "RIGHT", "RIGHT"], ["", "1", "2"]),
        ((), ["NOOP", "RIGHT"], ["", "1", "2"]),
        ((("up",), (), ("down",)), ["NOOP", "RIGHT", "LEFT"], ["up", "", "down"]),
    ],
)
def test_each_action_has_keys_whatever_a_level_calls_it(own, meanings, keys, monkeypatch):
    monkeypatch.setattr(FromFive, "keys_of_actions", own)
    monkeypatch.setattr(FromFive, "get_action_meanings", lambda self: meanings, raising=False)
    found = keys_of(made(f"{HERE}:FromFive", View()))
    assert found == tuple(Action(held=frozenset(one.split("+")) - {""}) for one in keys)


@pytest.mark.parametrize(
    "name, flags, keys",
    [
        ("Catch-v0", {}, ["left", "", "right"]),
        ("vnc:Catch-v0", {}, ["left", "", "right"]),
        (f"vnc:{PONG}", {}, ["", "space", "right", "left", "right+space", "left+space"]),
        ("vnc:sandbox/racer.yaml", {}, ["", "left", "right"]),
        ("vnc:CartPole-v1", {"action_set": "tap"}, ["", "space"]),
        ("vnc:CartPole-v1", {}, []),
        ("CartPole-v1", {}, []),
    ],
)
def test_the_keys_that_a_level_names_are_known_of_it(name, flags, keys):
    own = tuple(frozenset(one.split("+")) - {""} for one in keys)
    assert environments.spec(name, **flags).keys == own


@pytest.mark.parametrize("meanings", [{0: "NOOP", 1: "UP", 2: "DOWN"}, [0, 1, 2]])
def test_actions_that_are_not_called_by_words_have_no_keys(meanings, monkeypatch):
    monkeypatch.setattr(FromFive, "keys_of_actions", ())
    monkeypatch.setattr(FromFive, "get_action_meanings", lambda self: meanings, raising=False)
    assert environments.spec(f"{HERE}:FromFive").keys == ()


@pytest.mark.parametrize("shape", [(8, 8), (8, 8, 1), (8, 8, 4)])
def test_a_picture_that_a_window_cannot_show_is_refused(shape, monkeypatch, one_line):
    monkeypatch.setattr(FromFive, "render", lambda self: np.zeros(shape, np.uint8))
    told = f"{HERE}:FromFive draws no pictures of three colours"
    one_line(lambda: LevelWorld(f"{HERE}:FromFive", View(), 0.0, 1), told)


def test_a_picture_of_another_size_than_the_first_is_refused(monkeypatch, one_line):
    world = LevelWorld(f"{HERE}:FromFive", View(), 0.0, 1)
    monkeypatch.setattr(FromFive, "render", lambda self: np.zeros([6, 9, 3], np.uint8))
    told = f"{HERE}:FromFive draws pictures of 9 × 6 pixels, after one of 8 × 8"
    one_line(lambda: world.frame([]), told)
    one_line(lambda: world.reset(lambda seconds: None), told)
    world.close()


def test_actions_at_points_are_within_the_picture(tmp_path, one_line):
    (tmp_path / "page.html").write_text("")
    page = tmp_path / "page.yaml"
    (tmp_path / "own.yaml").write_text("[none, 'click 99999,3']")
    for actions, told in (
        ("[none, 'click -5,10']", "'click -5,10': expected a point of the 160 × 210 pixels"),
        ("own.yaml", "'click 99999,3': expected a point"),  # in the folder of the description
    ):
        page.write_text(f"{{url: page.html, score: '0', end: 'false', actions: {actions}}}")
        one_line(lambda: levels.game(RealTimeLevel(f"browser:{page}"), View()), told)


@pytest.mark.parametrize(
    "name, flags, told",
    [
        (PONG, {"env_kwargs": "a=1"}, "--env_kwargs=a=1 is for environments written in Python"),
        (PONG, {"wrappers": "a:b"}, "--wrappers=a:b is for environments written in Python"),
        (PONG, {"sticky_actions": 0.5}, "--sticky_actions=0.5 is not for worlds in real time"),
        (PONG, {"sticky_actions": 0.5}, "Give --sticky_actions=0.0."),
        (PONG, {"noop_max": 0}, "--noop_max=0 is not for worlds in real time"),
        (PONG, {"noop_max": 0}, "Give --noop_max=30."),
        (PONG, {"action_masks": True}, "Give --action_masks=false."),
        (PONG, {"max_episode_frames": 9}, "--max_episode_frames=9 is not for"),
        (PONG, {"frame_skip": 2}, "--frame_skip=2 does nothing over VNC"),
        (PONG, {"frame_skip": 2}, "Give --frame_skip=1."),
        ("sandbox/racer.yaml", {"env_kwargs": "a=1"}, "--env_kwargs=a=1 is for levels"),
        ("sandbox/racer.yaml", {"wrappers": "a:b"}, "--wrappers=a:b is for levels"),
        ("sandbox/racer.yaml", {"wrappers": "a:b"}, "Give --wrappers=''."),
        ("dummy:16-100", {"env_kwargs": "a=1"}, "--env_kwargs=a=1 is not for dummies"),
        ("browser:dino", {"env_kwargs": "a=1"}, "--env_kwargs=a=1 is not for web pages"),
        ("dummy:16-100", {"action_set": "arrows"}, "dummy:16-100 draws no pictures"),
        ("Catch-v0", {"crop": "0,0,300,300"}, "is not within the picture, which is 240 high"),
        ("sandbox/racer.yaml", {"crop": "abc"}, "--crop=abc"),
        ("browser:dino", {"fps": 60}, "--fps=60: a step of browser:dino takes 50 ms"),
    ],
)
def test_flags_that_would_do_nothing_are_refused(name, flags, told, one_line):
    one_line(lambda: environments.make(f"vnc:{name}", 1, 1, **flags), told)


def test_a_lost_life_ends_no_episode_in_real_time_and_the_games_own_rules_are_fine():
    env = environments.make(
        f"vnc:{PONG}", 1, 1, episodic_life=True, sticky_actions=0.0, frame_skip=1
    )
    env.close()


@pytest.mark.parametrize(
    "given, told",
    [
        ("arows", "actions: arows: expected atari, arrows"),
        ("none.yaml", "actions: none.yaml: it cannot be read (No such file"),
        ("own.yaml", "actions: own.yaml: there is no key 'lefft'. Did you mean left"),
        ("[none]", "actions: expected a list of two actions or more"),
    ],
)
def test_mistakes_in_the_actions_of_a_file_are_told_of_that_file(tmp_path, given, told, one_line):
    (tmp_path / "own.yaml").write_text("[none, lefft]")
    page, game = tmp_path / "page.yaml", tmp_path / "game.yaml"
    page.write_text(f"{{url: page.html, score: '0', end: 'false', actions: {given}}}")
    game.write_text(f"{{command: a, width: 9, height: 9, score: 'a:b', end: 1, actions: {given}}}")
    one_line(lambda: pages.read(str(page)), f"--level_name=browser:{page}: {told}")
    one_line(lambda: game_file.read(str(game), View()), f"--game={game}: {told}")


def test_a_file_of_actions_may_be_in_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "page.html").write_text("")
    (tmp_path / "pages" / "own.yaml").write_text("[none, 'click 7,3']")
    monkeypatch.chdir(tmp_path)
    for actions in ("own.yaml", "pages/own.yaml", f"{tmp_path}/pages/own.yaml"):
        file = tmp_path / "pages" / "page.yaml"
        file.write_text(f"{{url: page.html, score: '0', end: 'false', actions: {actions}}}")
        assert pages.read("pages/page.yaml").actions == (Action(), Action(click=(7, 3)))


def test_all_actions_of_an_atari_game_reach_its_remote(monkeypatch):
    view = View(full_action_set=True, fps=10)
    [source] = levels._sources(RealTimeLevel("pong"), view, 10.0, [1], levels.Remotes())
    assert "--full_action_set" in source._command  # type: ignore[attr-defined]
    assert len(levels.game(RealTimeLevel("pong"), view).actions) == 18
    assert set().union(*(one.held for one in keys_of(made("pong", view)))) <= set(KEYSYMS)
