"""Learners and actors in separate processes, and their failures."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import credentials
from tests.trainer.cluster import TRANSPORTS, Process, alone, experiment, free_address, mpirun
from tests.trainer.disks import small_disk
from tests.trainer.levels import Unhurried, level
from trainer.storage.checkpoints import Store
from trainer.storage.records import read_metrics
from user_error import NotWritten

pytestmark = pytest.mark.xdist_group("trainer cluster")

FRAMES = "total_environment_frames"
EPISODE = 3  # agent steps of an episode of Unhurried; a row for its reset follows
COMMON = [
    f"--level_name={level(Unhurried)}",
    "--envs_per_actor=4",
    "--replay_share=0",
    "--env_threads=1",
    "--unroll_length=10",
    "--batch_size=4",
    "--peer_timeout_s=2",
]


@pytest.fixture(autouse=True, params=["tensorflow", "secure"])
def transport(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: Any) -> str:
    """Both transports; actors that start before their learner find credentials in its folder."""
    if request.param == "secure":
        credentials.make(tmp_path / credentials.FOLDER)
        secure = ["--transport=secure", f"--logdir={tmp_path}"]
        monkeypatch.setitem(globals(), "COMMON", [*COMMON, *secure])
    return request.param


def flags(logdir: Path, **more: Any) -> list[str]:
    """A learner's flags; it saves and reports often."""
    quick = {"report_every_s": 0.5, "checkpoint_every_s": 1, "logdir": logdir}
    return [*COMMON, *(f"--{name}={value}" for name, value in (quick | more).items())]


def learner(logdir: Path, address: str, **more: Any) -> Process:
    return alone(*flags(logdir, job_name="learner", learner_host=address, **more))


def actor(task: int, address: str, *more: str) -> Process:
    return alone("--job_name=actor", f"--task={task}", f"--learner_host={address}", *COMMON, *more)


def assert_adds_up(logdir: Path, spare: int) -> dict[str, Any]:
    """Frames, steps and episodes agree; up to ``spare`` blocks were received or lost unused."""
    kept = Store(logdir / "checkpoints", 1).newest(print)
    assert kept is not None
    counters = kept[1].counters
    assert counters["environment_frames"] == counters["agent_steps"]
    missing = abs(counters["episodes"] - counters["agent_steps"] / EPISODE)
    assert missing <= spare * 4 * 10 / EPISODE, counters
    assert {value for level in counters["recent_returns"] for value in level} == {30.0}
    rows = read_metrics(logdir)
    frames = [row["environment_frames"] for row in rows]
    assert frames == sorted(set(frames)) and frames[-1] == counters["environment_frames"]
    return counters


def test_a_run_continues_whatever_happens_to_its_actors(tmp_path):
    address = free_address()
    with actor(0, address) as early:
        early.wait_for(f"Waiting for the learner at {address} (Connection refused)")
        with (
            learner(tmp_path, address, total_environment_frames=10**8) as first,
            actor(1, address) as second,
            actor(2, address, "--unroll_length=7") as wrong,
        ):
            early.wait_for("Connected to the learner")
            first.wait_for("2 actors connected")
            assert wrong.wait(60) == 2
            difference = "unroll_length is 10 at the learner and 7 at the actor"
            assert difference in wrong.output() and wrong.output().count("refuses") == 1
            first.wait_for(difference)
            second.send(signal.SIGSTOP)
            first.wait_for("nothing has been heard of actor 1")
            second.send(signal.SIGCONT)
            first.wait_for("is back")
            second.send(signal.SIGKILL)
            first.wait_for("nothing has been heard of actor 1", times=2)
            with actor(1, address) as third:
                first.wait_for("has joined", times=3)
                third.send(signal.SIGTERM)
                assert third.wait(30) == 0 and "left on SIGTERM" in third.output()
                first.wait_for("has left")
            first.send(signal.SIGTERM)
            assert first.wait(30) == 0 and "Ended: SIGTERM" in first.output()
            assert first.output().count(difference) == 1
        early.wait_for("Waiting for the learner", times=2)
        reached = assert_adds_up(tmp_path, spare=8)["environment_frames"]
        with learner(tmp_path, address, total_environment_frames=reached + 4000) as last:
            assert last.wait(90) == 0 and "Ended: all frames are played" in last.output()
            assert "limited by" in last.output() and "it could handle" in last.output()
        assert early.wait(30) == 0 and "has finished" in early.output()
    counters = assert_adds_up(tmp_path, spare=16)
    assert reached + 4000 <= counters["environment_frames"] < reached + 4000 + 40


# With each transport, the test above loses a learner.
@pytest.mark.parametrize("transport", TRANSPORTS, indirect=True)
def test_actors_survive_a_learner_that_is_killed_or_frozen(tmp_path):
    address = free_address()
    endless = {"total_environment_frames": 10**8}
    with actor(0, address) as playing:
        playing.wait_for("Waiting for the learner")
        with learner(tmp_path, address, peer_timeout_s=4, **endless) as first:
            first.wait_for("checkpoint frames-", times=2)
            first.send(signal.SIGSTOP)
            playing.wait_for("Waiting for the learner", times=2)
            time.sleep(4)  # in all, longer than the learner waits for an actor
            first.send(signal.SIGCONT)
            playing.wait_for("Connected", times=2)
            first.wait_for("checkpoint frames-", times=first.output().count("checkpoint") + 2)
            assert "nothing has been heard" not in first.output()
            first.send(signal.SIGKILL)
        playing.wait_for("Waiting for the learner", times=3)
        with learner(tmp_path, address, **endless) as second:
            second.wait_for("Resuming from")
            playing.wait_for("Connected", times=3)
            second.wait_for("checkpoint frames-", times=2)
            second.send(signal.SIGTERM)
            assert second.wait(30) == 0
        assert_adds_up(tmp_path, spare=16)
        playing.wait_for("Waiting for the learner", times=4)
        # As if the one before had been killed after its last checkpoint.
        with learner(tmp_path, address, total_environment_frames=1) as third:
            assert third.wait(90) == 0 and "is already trained" in third.output()
        assert playing.wait(30) == 0 and "has finished" in playing.output()


@pytest.mark.extras  # it needs root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a small disk")
def test_actors_of_all_learners_stay_where_there_was_no_room_for_the_last_checkpoint(tmp_path):
    addresses = [free_address(), free_address()]
    programs = [
        experiment(*flags(tmp_path, job_name="learner", learner_host=one, **{FRAMES: 4000}))
        for one in addresses
    ]
    with (
        small_disk(tmp_path / "checkpoints") as resize,
        actor(0, addresses[0]) as zero,
        actor(1, addresses[1]) as one,
    ):
        with mpirun(programs) as first:
            assert first.wait(120) == NotWritten.code
            assert "the last checkpoint could not be written" in first.output()
        resize("20m")
        with mpirun(programs) as second:
            assert second.wait(120) == 0 and "Ended: all frames are played" in second.output()
        for playing in (zero, one):
            assert playing.wait(30) == 0 and "has finished" in playing.output()


# With each transport, the first test asks an actor to leave and loses a learner.
@pytest.mark.parametrize("transport", TRANSPORTS, indirect=True)
def test_an_actor_can_leave_a_frozen_learner(tmp_path):
    address = free_address()
    with (
        learner(tmp_path, address, total_environment_frames=10**8) as silent,
        actor(0, address) as leaving,
    ):
        silent.wait_for("checkpoint frames-")
        silent.send(signal.SIGSTOP)
        leaving.send(signal.SIGTERM)
        assert leaving.wait(30) == 0, leaving.output()


# tests/transport has the error of the plain transport without a training.
@pytest.mark.parametrize("transport", TRANSPORTS, indirect=True)
def test_the_error_for_a_port_in_use_names_its_flag(tmp_path):
    address = free_address()
    with learner(tmp_path / "one", address) as first:
        first.wait_for("waiting for actors")
        with learner(tmp_path / "two", address) as second:
            assert second.wait(60) == 2
            assert f"--learner_host={address}: cannot listen there" in second.output()
        first.send(signal.SIGTERM)
        assert first.wait(60) == 0
        assert "there was no update, so there is no checkpoint" in first.output()
    assert not list(tmp_path.rglob("*.npz"))


# test_hosts.py has two learners with the plain transport.
@pytest.mark.parametrize("transport", TRANSPORTS, indirect=True)
@pytest.mark.timeout(400)
def test_two_learners_train_together_whatever_happens_to_one(tmp_path):
    addresses = [free_address(), free_address()]

    def learners(**more: Any) -> Process:
        each = [flags(tmp_path, job_name="learner", learner_host=a, **more) for a in addresses]
        return mpirun([experiment(*one) for one in each])

    with (
        actor(0, addresses[0]) as zero,
        actor(1, addresses[1]) as one,
        actor(2, addresses[0]) as two,
    ):
        playing = [zero, one, two]
        for process in playing:
            process.wait_for("Waiting for the learner")
        with learners(total_environment_frames=10**8, max_batch_wait_s=2) as first:
            first.wait_for("has joined", times=3)
            first.wait_for("checkpoint frames-")
            # On a busy machine it may begin without its actor, and must have it first.
            starved = first.output().count("learner 1: no batch of unrolls within 2 s")
            first.wait_for("learner 1: takes part again", times=starved)
            one.send(signal.SIGSTOP)
            first.wait_for("learner 1: no batch of unrolls within 2 s", times=starved + 1)
            first.wait_for("checkpoint frames-", times=first.output().count("checkpoint") + 2)
            one.send(signal.SIGCONT)
            first.wait_for("learner 1: takes part again", times=starved + 1)
            silences = first.output().count("no answer from another learner")
            first.send_rank(1, signal.SIGSTOP)
            first.wait_for("no answer from another learner", times=silences + 1)
            first.send_rank(1, signal.SIGCONT)
            first.wait_for("the other learners are back", times=silences + 1)
            first.send_rank(1, signal.SIGKILL)
            assert first.wait(30) != 0
        for process in playing:
            process.wait_for("Waiting for the learner", times=2)
        reached = read_metrics(tmp_path)[-1]["environment_frames"]
        with learners(total_environment_frames=reached + 8000) as last:
            assert last.wait(120) == 0, last.output()
            assert "Resuming from" in last.output()
            assert last.output().count("Ended: all frames are played") == 1
        for process in playing:
            assert process.wait(20) == 0
    counters = assert_adds_up(tmp_path, spare=32)
    assert reached + 8000 <= counters["environment_frames"] < reached + 8000 + 80
