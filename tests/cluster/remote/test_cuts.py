"""Starts during which a link is cut or a host stalls: they go on once it is back."""

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster import networks
from tests.cluster.conftest import Frontend, wait_for
from tests.cluster.networks import HEADER, Network, four_hosts

pytestmark = [
    pytest.mark.skipif(bool(networks.missing()), reason=networks.missing()),
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("network"),
]
SHORT_S = 5.0


@contextlib.contextmanager
def starting(remote: Frontend, *flags: str) -> Iterator[tuple[subprocess.Popen, Path]]:
    """A start in progress, and the file of what it says; at the end, it must have succeeded."""
    said = remote.folder / "said"
    with said.open("w") as out:
        command = remote.command("start", "--patience_s=60", *flags)
        begun = subprocess.Popen(command, cwd=remote.folder, env=remote.env, stdout=out)
    try:
        yield begun, said
        assert begun.wait(240) == 0, said.read_text()
    finally:
        begun.kill()
        begun.wait()


def recorded(remote: Frontend) -> Callable[[], bool]:
    return (remote.logdir / "cluster" / "run.json").exists


def stops_whole(remote: Frontend, network: Network, what: str) -> None:
    """All of the run is there, and goes."""
    status = remote.run("status")
    assert status.returncode == 0, status.stdout
    assert remote.run("stop").stdout == f"Stopped {what}.\n"
    assert [host.processes() for host in network.hosts] == [[], [], [], []]


def test_a_link_that_is_cut_during_the_checks_does_not_end_a_start(
    remote: Frontend, network: Network
):
    first, _, third, _ = network.hosts
    remote.csv(HEADER, network.row("learner", first, 8001), network.row("actor", third, 9001))
    network.cut(third)
    assert remote.run("check").returncode == 1  # only looks, so it does not wait
    with starting(remote) as (_, said):
        wait_for(lambda: "Asking again for 60 s." in said.read_text())
        network.mend(third)
    stops_whole(remote, network, "1 learner and 1 actor")


@pytest.mark.parametrize(
    "seconds", [SHORT_S, pytest.param(20.0, marks=pytest.mark.extras)], ids=["short", "20 s"]
)
def test_a_link_that_is_cut_while_processes_start_does_not_end_it(
    remote: Frontend, network: Network, seconds: float
):
    first, _, third, _ = network.hosts
    remote.csv(HEADER, network.row("learner", first, 8001), network.row("actor", third, 9001))
    with starting(remote, "--level_name=Late") as (begun, _):  # it listens after 12 s
        wait_for(lambda: any("experiment.py" in line for line in third.processes()))
        network.cut(third)
        time.sleep(seconds)
        assert begun.poll() is None
        network.mend(third)
    stops_whole(remote, network, "1 learner and 1 actor")


@pytest.mark.extras
def test_a_link_to_a_learner_that_is_cut_for_20_s_while_mpirun_starts_it_does_not_end_it(
    remote: Frontend, network: Network
):
    remote.csv(*four_hosts(network))
    with starting(remote, "--level_name=Late"):
        wait_for(recorded(remote))
        network.cut(network.hosts[0])
        time.sleep(20)
        network.mend(network.hosts[0])
    stops_whole(remote, network, "2 learners and 3 actors")


@pytest.mark.parametrize(
    "seconds", [SHORT_S, pytest.param(35.0, marks=pytest.mark.extras)], ids=["short", "35 s"]
)
def test_a_host_that_stalls_while_it_is_asked_to_start_does_not_end_it(
    remote: Frontend, network: Network, seconds: float
):
    first, _, third, _ = network.hosts
    remote.csv(HEADER, network.row("learner", first, 8001), network.row("actor", third, 9001))
    with starting(remote, "--level_name=Late"):
        wait_for(recorded(remote))
        network.freeze(third)
        time.sleep(seconds)
        network.thaw(third)
    stops_whole(remote, network, "1 learner and 1 actor")
