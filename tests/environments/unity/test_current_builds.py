"""Builds of ML-Agents 1.0 and later, played by a stand-in that speaks their protocol."""

import struct

import numpy as np
import pytest
from gymnasium import spaces

import environments
from environments.unity import process
from environments.unity.grpc_api import ENGINE, _engine, _parameter
from environments.unity.messages import Message
from tests.environments.playing import copied, play

pytestmark = pytest.mark.xdist_group("unity")

# As the package mlagents-envs 0.28.0 writes them.
OUTPUT = (
    "0a0308c801128e010a5a12530a0d57616c6b65723f7465616d3d3012420a403d0000c03f4001480150095a0201006a"
    "1a0a0102220a0a080000803e000080c0320101420673656e736f726a0c0a0304040110011a03706e6770037d000000"
    "3f1a0361626312300a01781205312e352e302a201a010230013a0d57616c6b65723f7465616d3d3040014a08080210"
    "021a02030442020801"
)
INPUT = (
    "0a0308c8011a360a340a2b0a0d57616c6b65723f7465616d3d30121a0a180a080000003f000080bf32080000003f00"
    "0080bf3a02020020012a03616263"
)
GREETING = "0a0308c8011a1c121a08031205312e352e301a05312e302e3022060801300138012801"


def test_messages_are_those_of_ml_agents_own_package():
    told = Message.FromString(bytes.fromhex(OUTPUT)).unity_output
    brain = told.rl_initialization_output.brain_parameters[0]
    (entry,) = told.rl_output.agent_infos
    (info,) = entry.value.value
    assert (brain.brain_name, list(brain.old_action_sizes), brain.old_action_type) == (
        "Walker?team=0", [2], 1,
    )  # fmt: skip
    assert brain.action_spec.num_continuous_actions == 2
    assert list(brain.action_spec.discrete_branch_sizes) == [3, 4]
    assert entry.key == "Walker?team=0"
    assert (info.id, info.reward, info.group_reward) == (9, 1.5, 0.5)
    assert info.done and info.max_step_reached
    assert [list(one.shape) for one in info.observations] == [[2], [4, 4, 1]]
    assert list(info.observations[0].float_data.data) == [0.25, -4]

    message = Message()
    message.header.status = 200
    said = message.unity_input.rl_input
    said.command, said.side_channel = 1, b"abc"
    said.agent_actions.add(key="Walker?team=0").value.value.add(
        old_actions=[0.5, -1], continuous_actions=[0.5, -1], discrete_actions=[2, 0]
    )
    assert message.SerializeToString(deterministic=True).hex() == INPUT
    hello = Message.FromString(bytes.fromhex(GREETING)).unity_input.rl_initialization_input
    assert (hello.seed, hello.communication_version, hello.num_areas) == (3, "1.5.0", 1)
    assert hello.capabilities.base and hello.capabilities.groups


def test_settings_of_the_engine_and_parameters_travel_on_side_channels():
    sent = _engine()
    assert sent[:16] == ENGINE.bytes_le and struct.unpack("<iif", sent[16:28]) == (8, 2, 20.0)
    assert _parameter("mass", 2.5)[16:] == struct.pack("<ii4sif", 16, 4, b"mass", 0, 2.5)


def test_agents_that_come_under_new_numbers_take_the_columns_of_those_that_left(build):
    env = environments.make(build("build"), 3, seed=1)
    rows, actions = play(env, num_steps=12)
    episodes = env.episodes()
    env.close()
    assert env.num_envs == 4 and env.spec.action_space == spaces.Box(-1, 1, (2,))
    # The first of two agents falls after three steps, the second one reaches a limit after five.
    np.testing.assert_array_equal(np.flatnonzero(rows.terminated[:, 0]), [3, 6, 9, 12])
    assert not rows.terminated[:, 1].any()
    np.testing.assert_array_equal(np.flatnonzero(rows.first[:, 1]), [0, 6, 11])
    np.testing.assert_array_equal(rows.observation[[3, 5], [0, 1], 1], [3, 5])  # the last of each
    acted = ~rows.first[1:]
    np.testing.assert_allclose(rows.reward[1:][acted], actions.sum(axis=2)[acted], rtol=1e-5)
    assert [one.length for one in episodes if one.environment == 1] == [5, 4]


def test_a_build_that_dies_is_noticed_at_once_and_started_again(build, monkeypatch, capsys):
    monkeypatch.setattr(process, "ANSWERS_WITHIN_S", 3600.0)
    env = environments.make(build("build", "dies"), 4, seed=1)
    rows = [copied(env.reset())]
    while len(rows) < 9 or rows[-1].first.reshape(-1, 2).all(axis=1).any():  # until it is back
        rows.append(copied(env.step(np.zeros((4, 2), np.float32))))
    env.close()
    told = capsys.readouterr().err
    assert "has ended: it has stopped by itself; it is started again" in told


def test_several_discrete_actions(build):
    env = environments.make(build("build", "branches"), 1, seed=1)
    rows, actions = play(env, num_steps=4)
    env.close()
    assert env.spec.action_space == spaces.MultiDiscrete([3, 2])
    acted = ~rows.first[1:]
    np.testing.assert_array_equal(rows.reward[1:][acted], actions.sum(axis=2)[acted])


def test_another_version_of_the_protocol_is_told_in_one_line(build, one_line):
    level = build("build", "version")
    one_line(lambda: environments.spec(level), "speaks version 0.9.0", "expected 1")
