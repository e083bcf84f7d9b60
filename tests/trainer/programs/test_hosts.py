"""Learners and actors on separate hosts with a failing network.

The hosts are network namespaces: real addresses, links and SSH servers.
"""

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.tools.ports import free_port
from tests import namespaces
from tests.namespaces import Bridge, Namespace, make_key
from tests.trainer.cluster import TRANSPORTS, Process, experiment, mpirun
from tests.trainer.programs import test_cluster
from tests.trainer.programs.test_cluster import assert_adds_up, flags, transport
from trainer.storage.records import read_metrics

__all__ = ["transport"]  # the fixture, shared with the tests on one machine

NEEDED = (namespaces.SSHD, "ssh-keygen", "mpirun")
SSH_PORT = 2222

pytestmark = [
    pytest.mark.skipif(bool(namespaces.missing(*NEEDED)), reason=namespaces.missing(*NEEDED)),
    pytest.mark.timeout(400),
    pytest.mark.xdist_group("trainer cluster"),
]


@pytest.fixture
def bridge() -> Iterator[Bridge]:
    made = Bridge()
    try:
        for _ in range(3):
            made.add()
        yield made
    finally:
        made.close()


def actor(host: Namespace, task: int, address: str) -> Process:
    """An actor on a host."""
    own = ["--job_name=actor", f"--task={task}", f"--learner_host={address}"]
    return Process(host.inside(sys.executable, *experiment(*own, *test_cluster.COMMON)))


def learner(host: Namespace, logdir: Path, address: str, frames: int) -> Process:
    """A learner on a host."""
    own = {"job_name": "learner", "learner_host": address, "total_environment_frames": frames}
    return Process(host.inside(sys.executable, *experiment(*flags(logdir, **own))))


def checkpoints_follow(process: Process) -> None:
    """Waits for two more checkpoints."""
    process.wait_for("checkpoint frames-", times=process.output().count("checkpoint frames-") + 2)


PLAIN = pytest.mark.parametrize("transport", ["tensorflow"], indirect=True)


# With each transport, test_cluster.py freezes and kills actors, and loses learners.
@pytest.mark.parametrize("transport", TRANSPORTS, indirect=True)
def test_an_actor_whose_link_was_cut_rejoins(bridge, tmp_path, transport):
    first, second, third = bridge.hosts
    cuts = 2 if transport == "secure" else 1  # what counts them is the same for both
    address = f"{first.ip}:{free_port()}"
    with actor(second, 0, address) as near, actor(third, 1, address) as far:
        with learner(first, tmp_path, address, frames=10**8) as endless:
            endless.wait_for("2 actors connected")
            for times in range(1, cuts + 1):
                checkpoints_follow(endless)
                before = far.output()
                third.unplug()
                endless.wait_for("nothing has been heard of actor 1", times=times)
                far.wait_for("Waiting for the learner", times=before.count("Waiting") + 1)
                checkpoints_follow(endless)
                third.plug()
                far.wait_for("Connected to the learner", times=before.count("Connected") + 1)
                endless.wait_for("is back", times=times)
            checkpoints_follow(endless)
            endless.send(signal.SIGTERM)
            assert endless.wait(60) == 0
        reached = assert_adds_up(tmp_path, spare=16)["environment_frames"]
        with learner(first, tmp_path, address, frames=reached + 4000) as last:
            assert last.wait(120) == 0 and "Ended: all frames are played" in last.output()
        for process in (near, far):
            assert process.wait(30) == 0 and "has finished" in process.output()
    counters = assert_adds_up(tmp_path, spare=24)
    assert reached + 4000 <= counters["environment_frames"] < reached + 4000 + 40


# As above.
@pytest.mark.parametrize("transport", TRANSPORTS, indirect=True)
def test_actors_reconnect_to_a_learner_whose_link_was_cut(bridge, tmp_path):
    first, second, third = bridge.hosts
    address = f"{first.ip}:{free_port()}"
    with (
        actor(second, 0, address) as zero,
        actor(third, 1, address) as one,
        learner(first, tmp_path, address, frames=10**8) as endless,
    ):
        endless.wait_for("2 actors connected")
        checkpoints_follow(endless)
        waits = [process.output().count("Waiting") for process in (zero, one)]
        first.unplug()
        for process, count in zip((zero, one), waits, strict=True):
            process.wait_for("Waiting for the learner", times=count + 1)
        endless.wait_for("0 actors connected")
        first.plug()
        endless.wait_for("is back", times=2)
        checkpoints_follow(endless)
        endless.send(signal.SIGTERM)
        assert endless.wait(60) == 0
    assert_adds_up(tmp_path, spare=24)


def ssh_config(bridge: Bridge, folder: Path) -> Path:
    """Starts an SSH server on each host; returns a client configuration for logging in."""
    make_key(folder / "me")
    config = folder / "config"
    lines = []
    for host in bridge.hosts:
        bridge.start_sshd(host, SSH_PORT, folder, f"AuthorizedKeysFile {folder / 'me.pub'}")
        lines += [f"Host {host.ip}", f"  Port {SSH_PORT}", f"  IdentityFile {folder / 'me'}"]
        lines += ["  IdentitiesOnly yes", "  StrictHostKeyChecking no", "  BatchMode yes"]
        lines += ["  UserKnownHostsFile /dev/null", "  LogLevel ERROR"]
    config.write_text("\n".join(lines) + "\n")
    return config


@PLAIN
def test_learners_on_two_hosts_and_actors_on_three_train_together(bridge, tmp_path):
    config = ssh_config(bridge, tmp_path)
    hosts, logdir = bridge.hosts, tmp_path / "run"
    addresses = [f"{host.ip}:{free_port()}" for host in hosts[:2]]

    def learners(**more: object) -> Process:
        each = [flags(logdir, job_name="learner", learner_host=a, **more) for a in addresses]
        return mpirun(
            [experiment(*one) for one in each],
            hosts=[host.ip for host in hosts[:2]],
            options=["-mca", "plm_rsh_agent", f"ssh -F {config}", "--prefix", "/usr", "-x", "PATH"]
            + ["-x", "CUDA_VISIBLE_DEVICES", "-x", "PYTHONUNBUFFERED"]
            + ["-mca", "btl_tcp_if_include", bridge.network]
            + ["-mca", "oob_tcp_if_include", bridge.network]
            + ["-mca", "odls_base_sigkill_timeout", "10"],
        )

    with (
        actor(hosts[0], 0, addresses[0]) as zero,
        actor(hosts[1], 1, addresses[1]) as one,
        actor(hosts[2], 2, addresses[0]) as two,
    ):
        with learners(total_environment_frames=10**8, max_batch_wait_s=2) as first:
            first.wait_for("has joined", times=3, seconds=120)
            checkpoints_follow(first)
            hosts[1].unplug()
            first.wait_for("no answer from another learner")
            hosts[1].plug()
            first.wait_for("the other learners are back")
            checkpoints_follow(first)
            first.send(signal.SIGTERM)
            first.wait(60)
        reached = read_metrics(logdir)[-1]["environment_frames"]
        with learners(total_environment_frames=reached + 8000) as last:
            assert last.wait(180) == 0, last.output()
            assert "Resuming from" in last.output()
            assert "2 learners were bit-identical" in last.output()
        for process in (zero, one, two):
            assert process.wait(30) == 0, process.output()
    counters = assert_adds_up(logdir, spare=40)
    assert reached + 8000 <= counters["environment_frames"] < reached + 8000 + 80
