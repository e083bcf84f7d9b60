"""Agents by name, and errors where a name or a level does not fit."""

import gymnasium as gym
import numpy as np
import pytest

import agents
from agents.vector import VectorAgent
from trainer.acting.settings import AGENTS
from user_error import UserError

ATARI = gym.spaces.Box(0, 255, (84, 84, 1), np.uint8)
SMALL = gym.spaces.Box(0, 255, (20, 20, 3), np.uint8)
VECTOR = gym.spaces.Box(-1.0, 1.0, (4,), np.float32)
MANY = gym.spaces.Box(np.zeros(60, np.float32), np.arange(1, 61, dtype=np.float32))
TWO = gym.spaces.Discrete(2)


class MyAgent(VectorAgent):
    """A user's own agent."""


def not_an_agent():
    """Something that a user may name by mistake."""


@pytest.mark.parametrize("name", ["simpleconvnetagent", "SIMPLECONVNETAGENT", ""])
def test_names_are_matched_without_regard_to_case(name):
    assert type(agents.make(name, ATARI, TWO)).__name__ == "SimpleConvNetAgent"


def test_a_level_without_a_named_agent_gets_one_that_fits():
    assert agents.default_name(ATARI) == "SimpleConvNetAgent"
    assert agents.default_name(SMALL) == "ResNetAgent"
    assert agents.default_name(VECTOR) == "VectorAgent"
    assert type(agents.make("", VECTOR, TWO)) is VectorAgent
    with pytest.raises(UserError, match="no built-in agent accepts"):
        agents.default_name(gym.spaces.Text(3))


def test_the_agents_of_the_specification_are_known():
    assert {"SimpleConvNetAgent", "ResNetLSTMAgent"} <= set(agents.known_agents())
    assert agents.known_agents() == AGENTS  # as flags list them


def test_a_user_s_agent_is_found_by_its_path():
    assert type(agents.make(f"{__name__}:MyAgent", VECTOR, TWO)).__name__ == "MyAgent"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("import tensorflow as tf\nsize = tf.nosuch", "has no attribute 'nosuch'"),
        ("def broken(:", r"invalid syntax \(broken_agent.py, line 1\)"),
        ("size = width", "name 'width' is not defined"),
    ],
)
def test_a_mistake_in_an_agent_s_file_is_reported_in_one_line(
    tmp_path, monkeypatch, content, message
):
    (tmp_path / "broken_agent.py").write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match=f"cannot import 'broken_agent': .*{message}") as error:
        agents.make("broken_agent:Mine", VECTOR, TWO)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "name, space, message",
    [
        ("SimpelConvNet", ATARI, "--agent_name=SimpelConvNet .*SimpleConvNetAgent"),
        ("no.such.module:Agent", ATARI, "cannot import 'no.such.module': No module named 'no'"),
        (":Agent", ATARI, "cannot import ''"),
        ("..no:Agent", ATARI, "cannot import '..no'"),
        (f"{__name__}:MyAgnt", VECTOR, "has no 'MyAgnt'. Did you mean MyAgent"),
        (f"{__name__}:not_an_agent", VECTOR, "is not an agent: it must be a subclass"),
        ("ResNetAgent", MANY, r"the level offers Box\(0.0, \[.* … .*\], \(60,\), float32\)"),
        (f"{__name__}:UserError", VECTOR, "is not an agent: it must be a subclass"),
        ("SimpleConvNetAgent", VECTOR, "needs images .*VectorAgent, VectorLSTMAgent"),
        ("SimpleConvNetAgent", SMALL, r"at least 36×36; .*\(20, 20, 3\).*ResNetAgent"),
        ("VectorAgent", ATARI, r"needs vectors .*\(84, 84, 1\).*SimpleConvNetAgent"),
        (f"{__name__}:MyAgent", ATARI, "MyAgent needs vectors"),
        ("VectorAgent", gym.spaces.Text(3), "No built-in agent fits"),
    ],
)
def test_mistakes_are_reported_in_one_line(name, space, message):
    with pytest.raises(UserError, match=message) as error:
        agents.make(name, space, TWO)
    assert "\n" not in str(error.value)
