"""Several agents whose learners and actors are processes of their own, and their failures."""

import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import credentials
from tests.trainer.cluster import TRANSPORTS, Process, alone, free_address
from trainer.programs import actor_of_agents
from trainer.programs.stopping import StopSignal
from trainer.settings.config import Settings
from trainer.storage.checkpoints import Store
from trainer.storage.records import read_metrics

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("trainer cluster")]

COMMON = [
    "--level_name=pettingzoo:tests.environments.bodies.game",
    "--agents=left,right",
    "--envs_per_actor=8",
    "--replay_share=0",
    "--unroll_length=5",
    "--batch_size=4",
    "--peer_timeout_s=2",
    "--precision=float32",
]
UNHURRIED = "tests.environments.bodies.game:unhurried"
RETURNS = {"left": 12.0, "right": 15.0}


def learner(folder: Path, agent: str, address: str, transport: str, **more: Any) -> Process:
    quick = {"report_every_s": 0.5, "checkpoint_every_s": 1, "transport": transport} | more
    own = [f"--agent={agent}", f"--learner_host={address}", f"--logdir={folder}"]
    return alone("--job_name=learner", *COMMON, *own, *(f"--{k}={v}" for k, v in quick.items()))


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_an_actor_plays_for_both_learners_whatever_happens_to_one(tmp_path, transport):
    if transport == "secure":  # the actor may start before a learner has made them
        credentials.make(tmp_path / credentials.FOLDER)
    hosts = {agent: free_address() for agent in RETURNS}
    named = ",".join(f"{agent}={host}" for agent, host in hosts.items())
    flags = [f"--learner_host={named}", f"--logdir={tmp_path}", f"--transport={transport}"]
    flags.append(f"--wrappers={UNHURRIED}")  # it plays on while others start

    def learns(agent: str, frames: int) -> Process:
        own = {"total_environment_frames": frames, "wrappers": UNHURRIED}
        return learner(tmp_path, agent, hosts[agent], transport, **own)

    with (
        alone("--job_name=actor", "--task=0", *COMMON, *flags) as actor,
        learns("right", 10**8) as right,
    ):
        with learns("left", 10**8) as left:
            left.wait_for("checkpoint frames-", 120)
            right.wait_for("checkpoint frames-", 120)
            left.send(signal.SIGKILL)
        actor.wait_for(f"left: Waiting for the learner at {hosts['left']}")
        # Its agent plays on, and the other one learns on.
        saved = right.output().count("checkpoint frames-")
        right.wait_for("checkpoint frames-", times=saved + 2)
        reached = read_metrics(tmp_path / "agents" / "left")[-1]["environment_frames"]
        with learns("left", reached + 1000) as left:
            left.wait_for("Resuming from")
            assert left.wait(120) == 0 and "Ended: all frames are played" in left.output()
        actor.wait_for(f"left: the learner at {hosts['left']} has finished")
        saved = right.output().count("checkpoint frames-")
        right.wait_for("checkpoint frames-", times=saved + 2)
        right.send(signal.SIGTERM)
        assert right.wait(30) == 0
        actor.send(signal.SIGTERM)
        assert actor.wait(30) == 0 and "asked to end by SIGTERM; left." in actor.output()
    for agent, value in RETURNS.items():
        assert read_metrics(tmp_path / "agents" / agent)[-1]["mean_episode_return"] == value
        assert Store(tmp_path / "agents" / agent / "checkpoints", 1).newest(print)
    assert (tmp_path / "learning_curve.png").exists()


def test_learners_in_step_wait_for_each_other_and_both_go_on(tmp_path):
    hosts = {agent: free_address() for agent in RETURNS}
    named = ",".join(f"{agent}={host}" for agent, host in hosts.items())
    actor_flags = ["--algorithm=ppo", f"--learner_host={named}", f"--logdir={tmp_path}"]
    ppo = {"algorithm": "ppo", "epochs": 1, "minibatches": 2, "total_environment_frames": 1500}
    common = [flag for flag in COMMON if not flag.startswith("--replay_share")]

    def learns(agent: str) -> Process:
        own = [f"--agent={agent}", f"--learner_host={hosts[agent]}", f"--logdir={tmp_path}"]
        return alone("--job_name=learner", *common, *own, *(f"--{k}={v}" for k, v in ppo.items()))

    with (
        alone("--job_name=actor", *common, *actor_flags) as actor,
        learns("left") as left,
        learns("right") as right,
    ):
        for one in (left, right):
            assert one.wait(150) == 0 and "Ended: all frames are played" in one.output()
        assert actor.wait(30) == 0
    for agent in RETURNS:
        assert all(row["policy_lag"] == 0 for row in read_metrics(tmp_path / "agents" / agent))


def test_a_learner_refuses_an_actor_of_another_agent(tmp_path):
    hosts = [free_address(), free_address()]
    swapped = f"--learner_host=left={hosts[1]},right={hosts[0]}"
    with (
        learner(tmp_path, "left", hosts[0], "tensorflow"),
        alone("--job_name=actor", *COMMON, swapped, f"--logdir={tmp_path}") as actor,
    ):
        assert actor.wait(120) == 2
        assert "agent is left at the learner and right at the actor" in actor.output()


class Turns:
    """What an actor of several agents does for one learner, without the learner."""

    agent = is_finished = None
    acting = SimpleNamespace(version=3)

    def has_weights(self) -> bool:
        return True

    def seat(self, part: Any, task: int) -> None:
        pass


def test_an_actor_whose_learners_are_all_away_plays_for_nobody(monkeypatch):
    stop, asked = StopSignal(), []

    class Away(Turns):
        """What it does for a learner that cannot be reached."""

        def wants(self) -> bool:
            asked.append(1)
            if len(asked) == 5:
                stop.request("the test")
            return False

    part = SimpleNamespace(num_envs=1, spec=SimpleNamespace(frames_per_step=1))
    environment = SimpleNamespace(parts=[part], close=lambda: None)
    monkeypatch.setattr(actor_of_agents.seats, "environment_of", lambda *_: environment)

    def unrolls() -> None:
        raise AssertionError("nobody wants them")

    shared = SimpleNamespace(unrolls=unrolls)
    monkeypatch.setattr(actor_of_agents, "SharedActor", lambda *_: shared)
    turns: Any = [Away()]
    with pytest.raises(actor_of_agents._Leave, match="the test"):
        actor_of_agents._play(Settings(), turns, stop)
    assert len(asked) == 5


def test_resets_of_its_bodies_are_no_frames_of_an_actor(monkeypatch):
    stop, counted = StopSignal(), []

    class There(Turns):
        """What it does for a learner that wants each block."""

        def wants(self) -> bool:
            return True

        def begin(self) -> None:
            pass

        def put(self, block: Any, count: int) -> None:
            stop.request("the test")

    class Counting:
        """What it reports its speed with."""

        def __init__(self, *_: Any) -> None:
            pass

        def add(self, frames: int) -> None:
            counted.append(frames)

    first = np.array([[True, True], [False, False], [True, False]])
    block = SimpleNamespace(environment=SimpleNamespace(first=first))
    part = SimpleNamespace(num_envs=2, spec=SimpleNamespace(frames_per_step=4))
    environment = SimpleNamespace(parts=[part], close=lambda: None)
    monkeypatch.setattr(actor_of_agents.seats, "environment_of", lambda *_: environment)
    monkeypatch.setattr(actor_of_agents, "Pace", Counting)
    shared = SimpleNamespace(unrolls=lambda: [block])
    monkeypatch.setattr(actor_of_agents, "SharedActor", lambda *_: shared)
    turns: Any = [There()]
    with pytest.raises(actor_of_agents._Leave, match="the test"):
        actor_of_agents._play(Settings(), turns, stop)
    assert sum(counted) == 4 * 3
