"""Ways to hosts: what looks cost, hosts behind others, learners out of sight; real sshd."""

import subprocess
import sys
import threading
import time

import pytest

from cluster.actions.seen import Seen
from cluster.backends.ssh import looking
from cluster.backends.ssh.hosts import Hosts, _program, request
from cluster.model import Host, Place
from cluster.options import Options
from cluster.record import Part, Record
from cluster.ssh.passwords import Passwords
from cluster.ssh.ssh import Connections
from tests.cluster import networks
from tests.cluster.conftest import Frontend, wait_for
from tests.cluster.networks import HEADER, FakeHost, Network, counting_python, sh

pytestmark = [
    pytest.mark.skipif(bool(networks.missing()), reason=networks.missing()),
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("network"),
]


def received(host: FakeHost) -> int:
    """Bytes that have come to a host."""
    shown = sh(f"ip -n {host.namespace.name} -s link show eth0").splitlines()
    (at,) = [number for number, line in enumerate(shown) if line.strip().startswith("RX:")]
    return int(shown[at + 1].split()[0])


def test_looks_send_their_program_once_and_again_only_when_it_has_gone(
    remote: Frontend, network: Network
):
    fake = network.hosts[2]
    python, starts = counting_python(fake)
    host = Host(fake.ip, fake.port, fake.user, str(network.key))
    place = Place(host, "impala", str(python))
    parts = [Part("actor-0", "actor", place)]
    record = Record("none", "logs/none", "", tuple(parts), ())
    connections = Connections(Passwords({}, Options()), str(network.known_hosts), False, 10)
    hosts = Hosts(connections)

    asked = request(record, "status", place, parts)

    def look() -> None:
        reply = hosts.ask_all({place: asked})[place]
        assert isinstance(reply, dict), reply
        assert reply["states"]["actor-0"]["state"] == "not started"

    try:
        look()
        before, threads = received(fake), threading.active_count()
        for _ in range(20):
            look()
        # Threads of what came before may end meanwhile; none may be added.
        assert received(fake) - before < len(_program()) and threading.active_count() <= threads
        assert starts.read_text() == "-I\n"
        # Gone on the host: the next look starts it again over the same connection.
        sh(f"pkill -u {fake.user} -f zlib.decompress")
        wait_for(lambda: not any("zlib" in line for line in fake.processes()))
        look()
        assert starts.read_text() == 2 * "-I\n"
        # The connection is gone: so is it, and the next look makes both anew.
        (client,) = connections._clients.values()
        client.close()
        look()
        assert starts.read_text() == 3 * "-I\n"
    finally:
        connections.close()
    assert not any("zlib" in line for line in fake.processes())


def test_a_host_behind_another_is_reached_through_it(remote: Frontend, network: Network):
    first, jump, _, behind = network.hosts
    own = network.own_address
    config = network.home / ".ssh" / "config"
    lines = [
        f"Host behind\n  HostName {behind.ip}\n  User {behind.user}\n  Port {behind.port}",
        f"Host bastion\n  HostName {jump.ip}\n  User {jump.user}\n  Port {jump.port}",
        f"Host behind bastion\n  IdentityFile {network.key}\n",
    ]
    remote.csv(
        HEADER,
        network.row("learner", first, 8001),
        f"actor,behind,9001,,,,,{sys.executable}",
    )
    sh(f"ip -n {behind.namespace.name} route add blackhole {own}/32")
    try:
        remote.flags.append("--patience_s=0")
        config.write_text("\n".join(lines))
        assert f"does not answer at port {behind.port}" in remote.run("check").stdout
        config.write_text("\n".join([*lines, "Host behind", "  ProxyJump bastion", ""]))
        assert "its name cannot be resolved" in remote.run("check", "--ssh_config=none").stdout
        started = remote.run("start")
        assert started.returncode == 0, started.stdout + started.stderr
        assert behind.processes() and not jump.processes()
        wait_for(lambda: f"actor 0 reached {first.ip}:8001" in remote.run("logs").stdout)
        assert remote.run("stop").stdout == "Stopped 1 learner and 1 actor.\n"
        assert behind.processes() == []

        relay = f"ssh -F {config} -o UserKnownHostsFile={network.known_hosts} -W %h:%p bastion"
        config.write_text("\n".join([*lines, "Host behind", f"  ProxyCommand {relay}", ""]))
        checked = remote.run("check")
        assert checked.returncode == 0, checked.stdout
        config.write_text("\n".join([*lines, "Host behind", "  ProxyJump x@bastion:1", ""]))
        told = remote.run("check").stdout.replace("\n", " ")
        assert "its jump host x@bastion:1: port 1: Connection refused" in " ".join(told.split())
    finally:
        sh(f"ip -n {behind.namespace.name} route del blackhole {own}/32")
        config.unlink()


@pytest.mark.extras
def test_a_lone_learner_that_is_out_of_sight_for_a_while_takes_no_added_actors_down(
    remote: Frontend, network: Network
):
    first, second, third, _ = network.hosts
    rows = [HEADER, network.row("learner", first, 8001), network.row("actor", second, 9001)]
    remote.csv(*rows)
    assert remote.run("start").returncode == 0
    remote.csv(*rows, network.row("actor", third, 9001))
    with (remote.folder / "said").open("w") as out:
        adding = remote.command("add", "--patience_s=40")
        network.cut(first)
        begun = subprocess.Popen(adding, cwd=remote.folder, env=remote.env, stdout=out)
    try:
        time.sleep(5)
        assert begun.poll() is None
        network.mend(first)
        assert begun.wait(120) == 0, (remote.folder / "said").read_text()
    finally:
        begun.kill()
        begun.wait()
    assert (remote.folder / "said").read_text().endswith("Added 1 actor: actor-1.\n")
    network.cut(first)
    try:
        refused = remote.run("add")
        assert refused.returncode == 2 and "learner-0 cannot be seen" in refused.stderr
        assert "Traceback" not in refused.stderr
    finally:
        network.mend(first)
    wait_for(lambda: remote.run("stop").returncode == 0)


@pytest.mark.extras
def test_a_failure_is_not_repeated_for_longer_than_the_patience_lasts(
    remote: Frontend, network: Network
):
    fake = network.hosts[2]
    remote.csv(
        HEADER,
        network.row("learner", network.hosts[0], 8001),
        network.row("actor", fake, 9001),
    )
    network.cut(fake)
    with (remote.folder / "said").open("w") as out:
        command = remote.command("start", "--patience_s=12", "--connect_timeout_s=1")
        begun = subprocess.Popen(command, cwd=remote.folder, env=remote.env, stdout=out)
    try:
        wait_for(lambda: "Asking again for 12 s." in (remote.folder / "said").read_text())
        network.mend(fake)
        assert begun.wait(120) == 0, (remote.folder / "said").read_text()
    finally:
        begun.kill()
        begun.wait()
    assert remote.run("stop").returncode == 0


def test_looking_for_a_learner_ends_with_the_patience(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(looking, "LOOK_EVERY_S", 0.01)
    place = Place(Host("192.0.2.1", 22, "ann"), "impala", "python3")
    record = Record("id", "logs/run", "", (Part("learner-0", "learner", place),), ())
    states = iter(["unknown: away"] * 3 + ["running"])

    def look(record: Record, hosts: Hosts) -> Seen:
        return Seen([looking.SeenPart(record.parts[0], next(states))], {}, {}, {})

    monkeypatch.setattr(looking, "look", look)
    hosts = Hosts(Connections(Passwords({}, Options()), "/none", False, 1))
    assert looking.find_learners(record, hosts, 30).is_learning
    states = iter(["unknown: away"] * 1000)
    assert not looking.find_learners(record, hosts, 0.05).is_learning
