"""Levels by name: what each stands for, and what is told where a name is wrong."""

import gymnasium
import pytest

import environments
from environments.names import AtariLevel, GymnasiumLevel, OwnLevel, find, remark


@pytest.mark.parametrize(
    ("level_name", "level"),
    [
        ("PongNoFrameskip-v4", AtariLevel("pong", 0.0)),
        ("PongDeterministic-v4", AtariLevel("pong", 0.0)),
        ("Pong-v4", AtariLevel("pong", 0.0)),
        ("Pong-v0", AtariLevel("pong", 0.25)),
        ("MsPacmanNoFrameskip-v0", AtariLevel("ms_pacman", 0.25)),
        ("ALE/Pong-v5", AtariLevel("pong", 0.25)),
        ("ALE/MontezumaRevenge-v5", AtariLevel("montezuma_revenge", 0.25)),
        ("pong", AtariLevel("pong", 0.0)),
        ("kung_fu_master", AtariLevel("kung_fu_master", 0.0)),
        ("MountainCar-v0", GymnasiumLevel("MountainCar-v0")),
        ("my_package:Maze-v1", GymnasiumLevel("my_package:Maze-v1")),
        ("package.module:make", OwnLevel("package.module", "make")),
    ],
)
def test_a_name_stands_for(level_name, level):
    assert find(level_name) == level


@pytest.mark.parametrize(
    ("level_name", "played_as"),
    [
        ("PongDeterministic-v4", "PongNoFrameskip-v4"),
        ("KungFuMaster-v0", "KungFuMasterNoFrameskip-v0"),
        ("kung_fu_master", "KungFuMasterNoFrameskip-v4"),
    ],
)
def test_another_frame_skip_in_a_name_is_remarked(level_name, played_as):
    assert f"{level_name} is played as {played_as};" in (remark(level_name) or "")
    assert environments.spec(level_name).frames_per_step == 4


@pytest.mark.parametrize("level_name", ["PongNoFrameskip-v4", "ALE/Pong-v5", "CartPole-v1"])
def test_a_name_that_says_how_it_is_played_needs_no_remark(level_name):
    assert remark(level_name) is None


def test_every_atari_game_that_gymnasium_knows_is_known_here():
    for name, registered in gymnasium.registry.items():
        if registered.entry_point == "ale_py.env:AtariEnv":
            assert find(name) == AtariLevel(
                registered.kwargs["game"], registered.kwargs["repeat_action_probability"]
            )


def test_every_known_level_is_found_and_listed_once():
    known = environments.known_levels()
    assert len(set(known)) == len(known)
    for name in known:
        find(name)


@pytest.mark.parametrize(
    ("given", "nearest"),
    [
        ("CartPole-v99", "CartPole-v1"),
        ("LunarLander-v2", "its newest version is LunarLander-v3"),
        ("Hopper-v1", "its newest version is Hopper-v5"),
        ("Taxi-v3", "its newest version is Taxi-v4"),
        ("Hopper", "its newest version is Hopper-v5"),
        ("kungfu_master", "kung_fu_master"),
        ("Pong", "Pong-v4"),
        ("pongnoframeskip-v4", "PongNoFrameskip-v4"),
        ("BreakoutNoFrameSkip-v4", "BreakoutNoFrameskip-v4"),
        ("ALE/Pong-v4", "ALE/Pong-v5"),
    ],
)
def test_an_unknown_level_is_told_with_its_nearest(given, nearest, one_line):
    one_line(lambda: environments.make(given, 1, 0), f"there is no level {given!r}", nearest)


@pytest.mark.parametrize("name", ["sandbox/racer.yaml", "page.yml"])
def test_a_file_is_told_with_what_stands_before_it(name, one_line):
    one_line(lambda: find(name), f"{name} is a file: expected vnc:{name}", f"browser:{name}")


def test_an_id_without_a_version_is_no_older_one(monkeypatch, one_line):
    environments.known_levels()  # is kept, and not with this one
    monkeypatch.setitem(gymnasium.registry, "Thing", gymnasium.spec("CartPole-v1"))
    one_line(lambda: find("Thing-v3"), "there is no level 'Thing-v3'")


def test_a_simulator_that_is_not_installed_is_told(one_line):
    told = "Gymnasium cannot make HalfCheetah-v2 here", "Its newest version is HalfCheetah-v5."
    one_line(lambda: environments.spec("HalfCheetah-v2"), *told, "gymnasium-robotics")
    one_line(lambda: environments.spec("nowhere:Maze-v1"), "cannot make nowhere:Maze-v1")


def test_whatever_gymnasium_raises_for_a_level_of_its_own_is_told(monkeypatch, one_line):
    def broken(*_, **__):
        raise AttributeError("no simulator\nhere")

    monkeypatch.setattr(gymnasium, "make", broken)
    told = "cannot make CartPole-v1 here: AttributeError: no simulator here"
    one_line(lambda: environments.spec("CartPole-v1"), told)
    with pytest.raises(AttributeError):
        environments.spec("my_package:Maze-v1")
