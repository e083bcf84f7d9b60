"""Runs on several hosts: real sshd, mpirun and tmux in network namespaces."""

import re
import sys

import pytest

from tests.cluster import networks
from tests.cluster.conftest import Frontend, copy_project, sockets, wait_for
from tests.cluster.networks import HEADER, PASSWORD, Network, counting_python, four_hosts

pytestmark = [
    pytest.mark.skipif(bool(networks.missing()), reason=networks.missing()),
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("network"),
]


def test_two_learners_under_mpirun_and_three_actors_on_four_hosts(
    remote: Frontend, network: Network
):
    remote.csv(*four_hosts(network))
    (remote.folder / "hosts.csv").chmod(0o600)
    checked = remote.run("check")
    assert checked.returncode == 0, checked.stdout + checked.stderr

    started = remote.run("start")
    assert started.returncode == 0, started.stdout + started.stderr
    assert " --workers_csv_path=hosts.csv --action=stop" in started.stdout
    told = remote.run("status")
    assert told.returncode == 0, told.stdout
    assert f"{network.hosts[1].ip}:8002 is rank 1 of 2" in told.stdout
    assert all(host.processes() for host in network.hosts)
    address = re.escape(f"{network.hosts[1].ip}:8002")
    reached = re.compile(f"actor-1 +actor 1 reached {address}")
    wait_for(lambda: reached.search(remote.run("logs").stdout))

    stopped = remote.run("stop")
    assert stopped.returncode == 0, stopped.stdout
    assert stopped.stdout == "Stopped 2 learners and 3 actors.\n"
    assert [host.processes() for host in network.hosts] == [[], [], [], []]
    assert remote.processes() == [] and sockets(remote) == []


def test_mpirun_finds_learners_by_names_that_only_its_ssh_knows(remote: Frontend, network: Network):
    first, second = network.hosts[:2]
    remote.csv(
        HEADER,
        network.row("learner", first, 8001),
        # Another user of the same host, so that its address says too little.
        network.row("learner", first, 8002, password=PASSWORD, key=False).replace(
            first.user, second.user
        ),
    )
    started = remote.run("start")
    assert started.returncode == 0, started.stdout + started.stderr
    assert f"{first.ip}:8002 is rank 1 of 2" in remote.run("status").stdout
    assert first.processes() and second.processes()
    assert remote.run("stop").stdout == "Stopped 2 learners.\n"
    assert first.processes() == second.processes() == []


def test_256_rows_on_four_hosts_are_one_request_each(remote: Frontend, network: Network):
    lines = [HEADER, network.row("learner", network.hosts[0], 8001)]
    lines += [network.row("actor", network.hosts[n % 4], 9000 + n) for n in range(256)]
    counted, starts = counting_python(network.hosts[1])
    remote.csv(*[line.replace(sys.executable, str(counted)) for line in lines])
    checked = remote.run("check")
    assert checked.returncode == 0, checked.stdout
    # The check's own look at the packages is one more.
    assert starts.read_text().split() == ["-I", "-c"]
    remote.csv(*lines)
    shared = network.hosts[1].home / "impala" / "user_error.py"
    before = shared.read_text()
    shared.write_text("# another version\n")
    told = remote.run("check")
    shared.write_text(before)
    assert told.returncode == 1 and told.stdout.count("differs from the version here") == 1
    assert remote.run("check").returncode == 0


def test_two_folders_of_a_host_are_stopped_by_one_signal(remote: Frontend, network: Network):
    first, second = network.hosts[:2]
    if not (second.home / "other").exists():
        copy_project(second.home / "other")
        networks.sh(f"chown -R {second.user} {second.home}/other")
    remote.csv(
        HEADER + ",remote_dir",
        network.row("learner", first, 8001) + ",",
        network.row("learner", second, 8002) + ",",  # under the mpirun here
        network.row("actor", second, 9001) + ",other",
    )
    started = remote.run("start", "--level_name=Slow")
    assert started.returncode == 0, started.stdout
    stopped = remote.run("stop")
    assert stopped.stdout == "Stopped 2 learners and 1 actor.\n"
    logs = remote.run("logs").stdout
    assert logs.count("all is saved") == 3, logs
    assert first.processes() == second.processes() == []


def test_hosts_join_a_run_and_leave_it(remote: Frontend, network: Network):
    first, second, third, _ = network.hosts
    rows = [HEADER, network.row("learner", first, 8001), network.row("actor", second, 9001)]
    remote.csv(*rows)
    assert remote.run("start", "--transport=secure").returncode == 0
    remote.csv(*rows, network.row("actor", third, 9001), network.row("actor", third, 9002))
    added = remote.run("add")
    assert added.stdout == "Added 2 actors: actor-1, actor-2.\n", added.stdout + added.stderr
    secrets = third.home / "impala" / "logs" / "run" / "credentials"
    assert [path.name for path in secrets.iterdir()] == ["actor.pem"]
    wait_for(lambda: f"actor 2 reached {first.ip}:8001" in remote.run("logs").stdout)
    network.cut(third)
    away = remote.run("remove", f"--hosts={third.ip}")
    assert away.returncode == 1 and "Not removed:\n  " in away.stdout
    network.mend(third)
    wait_for(lambda: remote.run("remove", f"--hosts={third.ip}").returncode == 0)
    assert third.processes() == [] and second.processes() and first.processes()
    assert remote.run("stop").stdout == "Stopped 1 learner and 1 actor.\n"
    assert [host.processes() for host in network.hosts] == [[], [], [], []]


SETUP = """#!/bin/sh
echo "$@" >set_up_as
test "$(pwd -P)" != "$HOME/broken" || { echo "no room here" >&2; exit 1; }
mkdir -p .venv/bin
printf '#!/bin/sh\\nexec %s "$@"\\n' PYTHON >.venv/bin/python
chmod +x .venv/bin/python
"""


def test_sync_sets_hosts_up_for_what_they_do(remote: Frontend, network: Network):
    setup = remote.folder / "bin" / "setup"
    setup.parent.mkdir(exist_ok=True)
    setup.write_text(SETUP.replace("PYTHON", sys.executable))
    setup.chmod(0o755)
    header = "job,ip,tf_port,ssh_port,ssh_username,ssh_key,remote_dir"
    members = list(zip(("learner", "learner", "actor"), network.hosts, strict=False))

    def lines(folder: str) -> list[str]:
        return [
            f"{job},{host.ip},8001,{host.port},{host.user},{network.key},{folder}"
            for job, host in members
        ]

    remote.csv(header, *lines("set up"))
    assert remote.run("check").stdout.count("the project is not in") == 3
    synced = remote.run("sync")
    assert synced.returncode == 0, synced.stdout + synced.stderr
    kinds = [(host.home / "set up" / "set_up_as").read_text() for _, host in members]
    assert kinds == ["--learner\n", "--learner\n", "--actor\n"]
    started = remote.run("start")
    assert started.returncode == 0, started.stdout
    assert remote.run("stop").stdout == "Stopped 2 learners and 1 actor.\n"

    remote.csv(header, *lines("broken"))
    failed = remote.run("sync")
    assert failed.returncode == 1
    assert failed.stdout.count("bin/setup --learner failed with exit code 1: no room here") == 2


def test_another_version_and_a_missing_project_are_told_and_mended_by_sync(
    remote: Frontend, network: Network
):
    # The last test: it leaves another version on the first host.
    first, second = network.hosts[:2]
    remote.csv(
        HEADER + ",remote_dir",
        network.row("learner", first, 8001) + ",",
        network.row("actor", second, 9001) + ",elsewhere",
        # Another Python in the same folder.
        network.row("actor", second, 9002).replace(sys.executable, f"/{sys.executable}")
        + ",elsewhere",
    )
    with open(remote.folder / "experiment.py", "a") as file:
        file.write("# newer\n")
    told = remote.run("check").stdout
    assert "differs from the version here" in told and "the project is not in" in told
    for gone_here in ("cluster/gone.py", "gone.py"):
        (first.home / "impala" / gone_here).write_text("")

    synced = remote.run("sync")
    assert synced.returncode == 0, synced.stdout + synced.stderr
    assert not (second.home / "elsewhere" / "hosts.csv").exists()
    assert remote.run("check").returncode == 0
