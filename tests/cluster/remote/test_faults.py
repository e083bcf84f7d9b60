"""Hosts that cannot be used, that die or that come back, in runs on several hosts."""

import json
import socket
import subprocess
import threading
import time

import pytest

from cluster.model import Host
from cluster.options import Options
from cluster.ssh import connecting, ssh
from cluster.ssh.failures import HostFailed
from cluster.ssh.passwords import Passwords
from tests.cluster import displays, networks
from tests.cluster.conftest import Frontend, sockets, wait_for
from tests.cluster.networks import HEADER, PASSWORD, Network, four_hosts

pytestmark = [
    pytest.mark.skipif(bool(networks.missing()), reason=networks.missing()),
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("network"),
]


def test_each_host_that_cannot_be_used_is_named_within_bounded_time(
    remote: Frontend, network: Network
):
    first, second, third, fourth = network.hosts
    changed = network.known_hosts.read_text().splitlines()
    other_key = changed[0].split()[2]
    network.known_hosts.write_text(
        "\n".join([*changed[:3], " ".join([*changed[3].split()[:2], other_key])]) + "\n"
    )
    silent = socket.create_server((network.own_address, 2299))
    nobody = network.own_address.replace(".254", ".99")
    remote.csv(
        HEADER,
        network.row("learner", first, 8001),
        network.row("actor", second, 9001).replace(f",{second.port},", ",2250,"),
        network.row("actor", third, 9002, password="wrong-" + PASSWORD, key=False),
        network.row("actor", fourth, 9003),
        f"actor,{network.own_address},9004,2299,ann,,{network.key},python3",
        f"actor,{nobody},9005,22,ann,,{network.key},python3",
    )
    checked = remote.run("check")
    silent.close()
    assert checked.returncode == 1
    told = {line.split()[0]: line for line in checked.stdout.splitlines() if "@" in line}
    assert "Connection refused" in told[f"{second.user}@{second.ip}:2250"]
    assert "login as" in told[f"{third.user}@{third.ip}:{third.port}"]
    assert "its host key has CHANGED" in told[f"{fourth.user}@{fourth.ip}:{fourth.port}"]
    assert "no SSH server answers within 10 s" in told[f"ann@{network.own_address}:2299"]
    assert f"ann@{nobody}" in told and first.user not in checked.stdout
    assert PASSWORD not in checked.stdout + checked.stderr
    assert "can be read by other users" in checked.stderr

    refused = remote.run("start")
    assert refused.returncode == 1 and "Nothing was started." in refused.stdout
    partly = remote.run("start", "--allow_partial", "--accept_new_host_keys")
    assert partly.returncode == 0 and "has CHANGED" in partly.stdout
    assert "running" in remote.run("status").stdout
    assert remote.run("stop").returncode == 1
    assert first.processes() == []


def test_learners_go_on_without_those_whose_host_cannot_be_used_if_that_is_allowed(
    remote: Frontend, network: Network
):
    first, second, third, _ = network.hosts
    remote.csv(
        HEADER,
        network.row("learner", second, 8002).replace(f",{second.port},", ",2250,"),
        network.row("learner", first, 8001),
        network.row("actor", third, 9001),
    )
    assert remote.run("start").returncode == 1
    started = remote.run("start", "--allow_partial")
    assert started.returncode == 0, started.stdout + started.stderr
    assert "Connection refused" in started.stdout
    assert "Continuing without the learners on hosts that cannot be used." in started.stdout
    wait_for(lambda: f"actor 0 reached {first.ip}:8001" in remote.run("logs").stdout)
    assert remote.run("stop").stdout == "Stopped 1 learner and 1 actor.\n"


def test_an_actors_host_that_dies_is_named_and_the_rest_goes_on_and_stops(
    remote: Frontend, network: Network
):
    first, _, third, _ = network.hosts
    remote.csv(
        HEADER,
        network.row("learner", first, 8001),
        network.row("actor", first, 9001),
        network.row("actor", third, 9002),
    )
    assert remote.run("start").returncode == 0
    network.cut(third)
    told = remote.run("status")
    assert told.returncode == 1 and "unknown: does not answer" in told.stdout
    assert told.stdout.count("running") == 2
    assert f"{third.user}@{third.ip}:{third.port}: does not answer" in remote.run("logs").stdout
    stopped = remote.run("stop")
    assert stopped.returncode == 1
    assert stopped.stdout.startswith("Stopped 1 learner and 1 actor.\nNot stopped:\n")
    assert f"\n  {third.user}@{third.ip}:{third.port}: " in stopped.stdout
    assert first.processes() == []
    network.mend(third)
    wait_for(lambda: remote.run("stop").returncode == 0)
    assert third.processes() == []


def test_following_outlasts_a_host_that_is_away_for_a_while(remote: Frontend, network: Network):
    first = network.hosts[0]
    remote.csv(HEADER, network.row("learner", first, 8001))
    assert remote.run("start").returncode == 0
    shown = remote.folder / "shown"
    following = subprocess.Popen(
        remote.command("status", "--follow"),
        cwd=remote.folder,
        env=remote.env,
        stdout=shown.open("w"),
    )
    try:
        wait_for(lambda: "running" in shown.read_text())
        network.cut(first)
        away = wait_for(lambda: "unknown: " in (text := shown.read_text()) and text, 120)
        network.mend(first)
        wait_for(lambda: "running" in shown.read_text()[len(away) :], 120)
        assert remote.run("stop").returncode == 0
        assert following.wait(60) == 0
    finally:
        following.kill()
        following.wait()


def test_a_restart_goes_on_without_a_host_that_is_gone_if_that_is_allowed(
    remote: Frontend, network: Network
):
    first, _, third, _ = network.hosts
    remote.csv(HEADER, network.row("learner", first, 8001), network.row("actor", third, 9001))
    assert remote.run("start").returncode == 0
    record = remote.logdir / "cluster" / "run.json"
    before = record.read_text()
    network.cut(third)
    assert remote.run("restart").returncode == 1
    again = remote.run("restart", "--allow_partial")
    assert again.returncode == 0, again.stdout + again.stderr
    assert "Not stopped:" in again.stdout and first.processes()
    assert remote.run("stop").returncode == 1 and first.processes() == []
    # A start that forgets that host says so.
    remote.csv(HEADER, network.row("learner", first, 8001))
    warned = remote.run("start")
    assert warned.returncode == 0
    gone = (
        f"warning: {third.user}@{third.ip}:{third.port} cannot be asked (does not answer at port "
    )
    assert gone in warned.stderr
    assert remote.run("stop").returncode == 0
    network.mend(third)
    record.write_text(before)
    wait_for(lambda: remote.run("stop").returncode == 0)
    assert third.processes() == []


def test_a_host_that_dies_in_a_long_request_is_noticed(
    network: Network, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(connecting, "ASKED_EVERY_S", 1)
    monkeypatch.setattr(connecting, "GONE_AFTER_S", 3)
    fake = network.hosts[0]
    network.known_hosts.unlink(missing_ok=True)
    network.remember(fake)
    host = Host(fake.ip, fake.port, fake.user, str(network.key))
    connections = ssh.Connections(Passwords({}, Options()), str(network.known_hosts), False, 5)
    try:
        assert connections.run(host, "true", "", 10)[0] == 0
        dies = threading.Timer(1, network.cut, [fake])
        dies.start()
        began = time.monotonic()
        with pytest.raises(HostFailed, match="the connection broke"):
            connections.run(host, "sleep 15", "", 50)
        assert time.monotonic() - began < 12
    finally:
        dies.join()
        network.mend(fake)
        connections.close()
        wait_for(lambda: fake.processes() == [])


def test_a_learners_host_that_dies_is_named_and_its_mpirun_ends(remote: Frontend, network: Network):
    first, second, third, _ = network.hosts
    remote.csv(*four_hosts(network)[:4])
    assert remote.run("start").returncode == 0
    network.cut(second)
    told = remote.run("status")
    assert told.returncode == 1
    (line,) = [line for line in told.stdout.splitlines() if " learner-1 " in line]
    assert f"{second.user}@{second.ip}:{second.port}" in line
    assert "unknown: does not answer" in line
    learners = remote.logdir / "cluster" / "learners.json"
    wait_for(lambda: json.loads(learners.read_text())["state"] == "ended", 120)
    wait_for(lambda: first.processes() == [])
    (line,) = [line for line in remote.run("status").stdout.splitlines() if " actor-0 " in line]
    assert "running" in line
    stopped = remote.run("stop")
    assert stopped.returncode == 1
    assert f"Not stopped:\n  {second.user}@{second.ip}:{second.port}: " in stopped.stdout
    assert third.processes() == [] and remote.processes() == [] and sockets(remote) == []
    network.mend(second)
    wait_for(lambda: remote.run("stop").returncode == 0)
    wait_for(lambda: second.processes() == [])


def test_a_learner_that_its_actors_cannot_reach_is_told(remote: Frontend, network: Network):
    first, second = network.hosts[:2]
    remote.csv(
        HEADER,
        network.row("learner", first, 8001),
        network.row("actor", second, 9001),
    )
    assert remote.run("check").returncode == 0
    route = f"ip -n {second.namespace.name} route"
    networks.sh(f"{route} add blackhole {first.ip}")
    try:
        told = remote.run("check")
    finally:
        networks.sh(f"{route} del blackhole {first.ip}")
    assert told.returncode == 1
    assert f"cannot reach the learner's {first.ip}:8001" in told.stdout


# tests/cluster/test_mpirun.py has both learners on one host.
@pytest.mark.parametrize(
    "apart", [True, pytest.param(False, marks=pytest.mark.extras)], ids=["two hosts", "one host"]
)
def test_learners_are_restarted_beside_a_program_that_never_answers_on_their_host(
    remote: Frontend, network: Network, apart: bool
):
    first, second = network.hosts[:2]
    remote.csv(
        HEADER,
        network.row("learner", first, 8001),
        network.row("learner", second if apart else first, 8002),
    )
    started = remote.run("start", "--restart_learners=1")
    assert started.returncode == 0, started.stdout
    with displays.occupied_on(first.namespace), displays.occupied_on(second.namespace):
        networks.sh(f"pkill -KILL -u {first.user} -f -- --job_name=learner")
        wait_for(lambda: remote.run("logs", "--name=learner-1").stdout.count("is rank 1 of 2") == 2)
    assert remote.run("stop").returncode == 0
    assert first.processes() == second.processes() == []
