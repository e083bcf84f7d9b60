"""How a level is shown to its agent: what flags change, and what they refuse."""

import dataclasses
import inspect
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import environments
from environments.python.plain import plain
from environments.rules import AtariRules
from environments.view import View
from trainer.acting.settings import ActorSettings, LevelSettings

HERE = "tests.environments.test_view"


@pytest.mark.parametrize(
    ("given", "kwargs"),
    [
        ("", {}),
        ("gravity=-5.5,continuous=true,map_name=8x8", {
            "gravity": -5.5, "continuous": True, "map_name": "8x8"}),
        ("render_fps=30, slippery=False ,seed=None", {
            "render_fps": 30, "slippery": False, "seed": None}),
        ('{"desc": ["SF", "FG"], "is_slippery": false}', {
            "desc": ["SF", "FG"], "is_slippery": False}),
    ],
)  # fmt: skip
def test_arguments_of_an_environment_are_written_as_pairs_or_as_json(given, kwargs):
    assert View(env_kwargs=given).kwargs == kwargs


@pytest.mark.parametrize("processes", [0, 1])
def test_an_environment_is_made_with_its_arguments(processes):
    level: dict[str, Any] = {"env_kwargs": '{"desc": ["SF", "FG"], "is_slippery": false}'}
    assert environments.spec("FrozenLake-v1", **level).observation_space.shape == (4,)
    env = environments.make("FrozenLake-v1", 1, 0, env_processes=processes, **level)
    env.reset()
    assert env.step(np.array([1])).observation.tolist() == [[0, 0, 1, 0]]
    assert env.step(np.array([2])).terminated
    env.close()


class Sized(gymnasium.Env):
    """An environment with one argument."""

    action_space = spaces.Discrete(2)

    def __init__(self, size: int) -> None:
        self.observation_space = spaces.Box(0, 1, (size,))

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.zeros(self.observation_space.shape or (), np.float32), {}


def doubled(env: gymnasium.Env) -> gymnasium.Env:
    """Shows everything twice."""
    space = env.observation_space
    assert isinstance(space, spaces.Box)
    twice = spaces.Box(np.tile(space.low, 2), np.tile(space.high, 2))
    return gymnasium.wrappers.TransformObservation(env, lambda seen: np.tile(seen, 2), twice)


def lost(env: gymnasium.Env) -> None:
    """A wrapper without its return."""


def test_ones_own_environment_gets_its_arguments_too():
    assert environments.spec(f"{HERE}:Sized", env_kwargs="size=3").observation_space.shape == (3,)


@pytest.mark.parametrize("processes", [0, 1])
def test_wrappers_are_applied_in_order(processes):
    wrappers = f"{HERE}:doubled, {HERE}:doubled"
    assert environments.spec("CartPole-v1", wrappers=wrappers).observation_space.shape == (16,)
    env = environments.make("CartPole-v1", 2, 0, wrappers=wrappers, env_processes=processes)
    seen = env.reset().observation
    np.testing.assert_array_equal(seen, np.tile(seen[:, :4], 4))
    env.close()


@pytest.mark.parametrize(
    ("level_name", "view", "told"),
    [
        ("CartPole-v1", {"env_kwargs": "gravity"}, "'gravity' is not key=value"),
        ("CartPole-v1", {"env_kwargs": '{"a": '}, "is not a JSON object"),
        ("CartPole-v1", {"env_kwargs": "wind=3"}, "with --env_kwargs=wind=3: TypeError"),
        ("gymnasium:CartPole-v1", {"env_kwargs": "wind=3"}, "with --env_kwargs=wind=3: TypeError"),
        (f"{HERE}:Sized", {"env_kwargs": "sise=3"}, "cannot be called with --env_kwargs=sise=3"),
        ("PongNoFrameskip-v4", {"env_kwargs": "mode=1"}, "--env_kwargs=mode=1 is for"),
        ("PongNoFrameskip-v4", {"wrappers": f"{HERE}:doubled"}, "is for environments written in"),
        ("CartPole-v1", {"wrappers": "doubled"}, "doubled: expected package.module:name"),
        ("CartPole-v1", {"wrappers": f"{HERE}:dubled"}, "has no 'dubled'. Did you mean doubled"),
        ("CartPole-v1", {"wrappers": "nowhere.wrap:one"}, "there is no module 'nowhere'"),
        ("CartPole-v1", {"wrappers": ".wrap:one"}, "there is no module '.wrap'; expected package"),
        ("CartPole-v1", {"wrappers": f"{HERE}:HERE"}, "is a str, expected a function that returns"),
        ("CartPole-v1", {"wrappers": f"{HERE}:lost"}, "lost returned a NoneType, expected a gym"),
        ("CartPole-v1", {"wrappers": f"{HERE}:Sized"}, "Sized cannot wrap CartPole-v1: TypeError"),
        ("CartPole-v1", {"crop": "0,0,2,2"}, "--crop=0,0,2,2 is for pictures"),
        ("BipedalWalker-v3", {"crop": "0,0,2,2"}, "BipedalWalker-v3 observes Box([-3.14"),
        ("CarRacing-v3", {"crop": "0,0,97,96"}, "which is 96 high and 96 wide"),
        ("PongNoFrameskip-v4", {"crop": "60,0,160,160"}, "which is 210 high and 160 wide"),
        ("PongNoFrameskip-v4", {"crop": "-1,0,160,160"}, "is not within the picture"),
        ("PongNoFrameskip-v4", {"crop": "0,0,0,160"}, "is not within the picture"),
        ("PongNoFrameskip-v4", {"crop": "34,0,160"}, "expected four whole numbers"),
        ("PongNoFrameskip-v4", {"crop": "a,b,c,d"}, "expected four whole numbers"),
    ],
)
def test_a_view_that_cannot_be_is_refused_in_one_line(level_name, view, told, one_line):
    one_line(lambda: environments.spec(level_name, **view), told, *view)


def test_a_frame_stack_is_the_levels_own_unless_it_is_given():
    for level_name, usual in (("PongNoFrameskip-v4", 4), ("CartPole-v1", 1), ("vnc:Catch-v0", 4)):
        assert environments.spec(level_name).frame_stack == usual
        assert environments.spec(level_name, frame_stack=2).frame_stack == 2
        if not level_name.startswith("vnc:"):
            assert environments.make(level_name, 1, 0, frame_stack=2).spec.frame_stack == 2


def test_pictures_of_python_environments_are_cropped_before_they_are_resized():
    class Gradient(gymnasium.Env):
        observation_space = spaces.Box(0, 255, (6, 8, 1), np.uint8)
        action_space = spaces.Discrete(2)

        def reset(self, **_: Any) -> Any:
            return np.arange(48, dtype=np.uint8).reshape(6, 8, 1), {}

    env = plain(Gradient(), "Any-v0", View(crop="1,2,3,4", height=3, width=4))
    seen, _ = env.reset()
    np.testing.assert_array_equal(seen, np.arange(48).reshape(6, 8, 1)[1:4, 2:6])


def test_flags_have_the_defaults_of_the_environments():
    usual = {
        name: one.default for name, one in inspect.signature(environments.make).parameters.items()
    }
    usual |= dataclasses.asdict(View()) | dataclasses.asdict(AtariRules())
    of_agents = ("agents", "product", "bodies")  # who plays there, if there are several
    for name, value in dataclasses.asdict(LevelSettings()).items():
        assert name in ("level_name", *of_agents) or usual[name] == value, name


@pytest.mark.parametrize(("given", "number"), [("auto", None), ("0", 0), ("3", 3)])
def test_env_processes_are_a_number_or_auto(given, number):
    assert ActorSettings(env_processes=given).worker_processes == number


@pytest.mark.parametrize("given", ["", "all", "-1", "2.5", "9999"])
def test_other_env_processes_are_refused(given, one_line):
    one_line(lambda: ActorSettings(env_processes=given), f"--env_processes={given}: expected auto")


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ({"image": spaces.Box(0, 255, (7, 7, 3), np.uint8)}, "image: Box(0, 255, (7, 7, 3)"),
        ({"mission": spaces.Text(9)}, "mission: Text(1, 9"),
        ({"a": spaces.Dict(b=spaces.Sequence(spaces.Discrete(2)))}, "a.b: Sequence"),
        ({"a": spaces.Tuple([spaces.Discrete(2), spaces.Text(9)])}, "a.1: Text"),
    ],
)
def test_a_dict_with_a_part_that_is_no_vector_is_refused(parts, told, one_line):
    env = Sized(1)
    env.observation_space = spaces.Dict(direction=spaces.Discrete(4), **parts)
    view = View()
    one_line(
        lambda: plain(env, "Any-v0", view),
        f"Any-v0 observes {told}",
        "a Dict or Tuple of",
    )
