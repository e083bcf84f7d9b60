"""Runs on several hosts: real sshd, mpirun and tmux in network namespaces."""

import contextlib
import dataclasses
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import frontend, hosts_csv, logins, options
from cluster.passwords import Passwords
from cluster.plan import make_plan
from tests.cluster import networks
from tests.cluster.conftest import Frontend, wait_for
from tests.cluster.networks import HEADER, OWN_ADDRESS, PASSWORD, FakeHost, Network
from tests.cluster.terminal import Terminal

pytestmark = [
    pytest.mark.skipif(bool(networks.missing()), reason=networks.missing()),
    pytest.mark.timeout(600),
]


def four_hosts(network: Network) -> list[str]:
    first, second, third, fourth = network.hosts
    return [
        HEADER,
        network.row("learner", first, 8001),
        network.row("learner", second, 8002, password=PASSWORD, key=False),
        network.row("actor", third, 9001, password=PASSWORD, key=False),
        network.row("actor", fourth, 9002),
        network.row("actor", fourth, 9003),
    ]


def everything_in(folder: Path) -> Iterator[tuple[Path, str]]:
    for path in folder.rglob("*"):
        if path.is_file() and path.name != "hosts.csv":
            yield path, path.read_text(errors="replace")


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
    reached = re.compile(r"actor-1 +actor 1 reached 10\.77\.9\.2:8002")
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


def sockets(frontend: Frontend) -> list[Path]:
    """Of the run's connections that were logged in by password."""
    run_id = json.loads((frontend.logdir / "cluster" / "run.json").read_text())["run_id"]
    return list(Path("/tmp").glob(f"impala-ssh-{run_id}-*"))


def test_the_password_is_nowhere_while_a_run_that_needs_it_goes_on(
    remote: Frontend, network: Network
):
    remote.csv(*four_hosts(network))
    remote.env["SECRET"] = PASSWORD
    outputs = [
        remote.run(action, "--ssh_password_env=SECRET", *flags)
        for action, *flags in (["check"], ["start", "--dry_run"], ["start"], ["status"], ["logs"])
    ]
    assert [done.returncode for done in outputs] == [0] * 5
    wrong = remote.run("check", "--ssh_username")  # an error while passwords are read
    outputs.append(wrong)
    assert not [done for done in outputs if PASSWORD in done.stdout + done.stderr]
    assert "can be read by other users" in outputs[0].stderr

    for name in ("cmdline", "environ"):
        for path in Path("/proc").glob(f"[0-9]*/{name}"):
            with contextlib.suppress(OSError):
                assert PASSWORD not in path.read_text(errors="replace"), path
    assert len(sockets(remote)) == 1
    for folder in (remote.folder, *(host.home for host in network.hosts)):
        for path in folder.rglob("*"):
            if path.is_file() and path.name not in ("hosts.csv", "networks.py"):
                assert PASSWORD not in path.read_text(errors="replace"), path
    windows = tmux_windows(remote, network)
    assert len(windows) == 4 and not [text for text in windows if PASSWORD in text]
    assert remote.run("stop", "--ssh_password_env=SECRET").returncode == 0


def tmux_windows(remote: Frontend, network: Network) -> list[str]:
    """All that tmux keeps, here and on each host: a text for each window."""
    texts = []
    mine = ["env", f"TMUX_TMPDIR={remote.env['TMUX_TMPDIR']}", "tmux"]
    theirs = [["runuser", "-u", host.user, "--", "tmux"] for host in network.hosts]
    for tmux in (mine, *theirs):

        def ask(*words: str, tmux: list[str] = tmux) -> str:
            env = {name: value for name, value in os.environ.items() if name != "TMUX"}
            return subprocess.run(
                [*tmux, *words], env=env, capture_output=True, text=True, check=False
            ).stdout

        kept = ask("show-environment", "-g") + ask("show-buffer") + ask("show-messages")
        for window in ask("list-windows", "-a", "-F", "#S:#W").split():
            kept += ask("show-environment", "-t", window.split(":")[0])
            texts.append(kept + ask("capture-pane", "-p", "-S", "-", "-t", window))
    return texts


def test_a_password_is_asked_for_at_the_terminal_and_not_shown(remote: Frontend, network: Network):
    first, second = network.hosts[:2]
    remote.csv(
        HEADER,
        network.row("learner", first, 8001, key=False),
        network.row("actor", second, 9001, key=False),
    )
    command = remote.command("check", "--ask_ssh_password")
    with Terminal(command, remote.folder, remote.env) as terminal:
        terminal.wait_for("SSH password for hosts without one in the CSV: ")
        terminal.type(PASSWORD)
        assert terminal.wait() == 0
        assert "Nothing is wrong." in terminal.shown and PASSWORD not in terminal.shown
        assert terminal.shown.count("SSH password") == 1
    nobody = subprocess.run(
        command, cwd=remote.folder, env=remote.env, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, start_new_session=True, check=False,
    )  # fmt: skip
    assert nobody.returncode == 2 and "there is no terminal to ask at" in nobody.stderr


def test_the_hosts_of_a_secure_run_get_the_files_that_they_need_and_nobody_else_sees_them(
    remote: Frontend, network: Network
):
    remote.csv(*four_hosts(network))
    started = remote.run("start", "--transport=secure")
    assert started.returncode == 0, started.stdout + started.stderr
    told = [started.stdout + started.stderr, remote.run("status").stdout, remote.run("logs").stdout]
    told.append(remote.run("start", "--transport=secure", "--dry_run").stdout)
    told += [path.read_text(errors="replace") for path in Path("/proc").glob("[1-9]*/cmdline")]
    own = {path.name: path.read_text() for path in (remote.logdir / "credentials").iterdir()}
    for host, names in zip(
        network.hosts, (["learner.pem"], ["learner.pem"], ["actor.pem"], ["actor.pem"]), strict=True
    ):
        folder = host.home / "impala" / "logs" / "run" / "credentials"
        files = sorted(folder.iterdir())
        assert [path.name for path in files] == names and folder.stat().st_mode & 0o777 == 0o700
        for path in files:
            assert path.read_text() == own[path.name]
            assert path.stat().st_mode & 0o777 == 0o600 and path.owner() == host.user
    hidden = [line for text in own.values() for line in text.splitlines() if "-----" not in line]
    texts = [text for path, text in everything_in(remote.folder) if path.suffix != ".pem"]
    for host in network.hosts:
        texts += [text for path, text in everything_in(host.home) if path.suffix != ".pem"]
    for line in hidden:
        assert not any(line in text for text in (*told, *texts))
    assert remote.run("stop").returncode == 0


def test_each_host_that_cannot_be_used_is_named_within_bounded_time(
    remote: Frontend, network: Network
):
    first, second, third, fourth = network.hosts
    changed = network.known_hosts.read_text().splitlines()
    other_key = changed[0].split()[2]
    network.known_hosts.write_text(
        "\n".join([*changed[:3], " ".join([*changed[3].split()[:2], other_key])]) + "\n"
    )
    silent = socket.create_server((OWN_ADDRESS, 2299))
    refusing = FakeHost(second.number, second.home)
    remote.csv(
        HEADER,
        network.row("learner", first, 8001),
        network.row("actor", refusing, 9001).replace(f",{second.port},", ",2250,"),
        network.row("actor", third, 9002, password="wrong-" + PASSWORD, key=False),
        network.row("actor", fourth, 9003),
        f"actor,{OWN_ADDRESS},9004,2299,ann,,{network.key},python3",
        f"actor,10.77.9.99,9005,22,ann,,{network.key},python3",
    )
    checked = remote.run("check")
    silent.close()
    assert checked.returncode == 1
    told = {line.split()[0]: line for line in checked.stdout.splitlines() if "@" in line}
    assert "Connection refused" in told[f"{second.user}@{second.ip}:2250"]
    assert "login as" in told[f"{third.user}@{third.ip}:{third.port}"]
    assert "its host key has CHANGED" in told[f"{fourth.user}@{fourth.ip}:{fourth.port}"]
    assert "no SSH server answers within 3 s" in told[f"ann@{OWN_ADDRESS}:2299"]
    assert "ann@10.77.9.99" in told and first.user not in checked.stdout
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
    assert "Going on without the learners of hosts that cannot be used." in started.stdout
    wait_for(lambda: f"actor 0 reached {first.ip}:8001" in remote.run("logs").stdout)
    assert remote.run("stop").stdout == "Stopped 1 learner and 1 actor.\n"


def test_a_password_that_is_refused_ends_the_login_for_mpirun_at_once(
    remote: Frontend, network: Network
):
    first, second = network.hosts[:2]
    remote.csv(
        HEADER,
        network.row("learner", first, 8001),
        network.row("learner", second, 8002, password=PASSWORD, key=False),
    )
    chosen, settings = options.parse([f"--workers_csv_path={remote.folder}/hosts.csv"])
    rows = hosts_csv.read(Path(chosen.workers_csv_path))
    here = dataclasses.replace(
        frontend.here(), folder=str(remote.folder), known_hosts=str(network.known_hosts)
    )
    spread = make_plan(rows, settings, chosen, here).spread
    config = Path(spread.files[-1][0])
    config.parent.mkdir(parents=True)
    config.write_text(spread.files[-1][1])
    wrong = Passwords({spread.by_password[0][1]: "wrong"}, chosen)
    (told,) = logins.open_all(spread, "none", wrong, chosen)
    assert "Permission denied" in told and "wrong" not in told


def test_new_host_keys_are_refused_until_they_are_accepted(remote: Frontend, network: Network):
    first = network.hosts[0]
    network.known_hosts.unlink()
    remote.csv(HEADER, network.row("learner", first, 8001))
    assert "its host key is not known (ssh-ed25519 SHA256:" in remote.run("check").stdout
    assert not network.known_hosts.exists()
    assert remote.run("check", "--accept_new_host_keys").returncode == 0
    assert f"[{first.ip}]:{first.port} ssh-ed25519 " in network.known_hosts.read_text()
    assert remote.run("check").returncode == 0


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
    assert f"started on {third.user}@{third.ip}:{third.port} cannot be seen now" in warned.stderr
    assert remote.run("stop").returncode == 0
    network.mend(third)
    record.write_text(before)
    wait_for(lambda: remote.run("stop").returncode == 0)
    assert third.processes() == []


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


def test_a_password_may_come_from_the_environment(remote: Frontend, network: Network):
    first = network.hosts[0]
    remote.csv(HEADER, network.row("learner", first, 8001, key=False))
    remote.env["SECRET"] = PASSWORD
    assert remote.run("check", "--ssh_password_env=SECRET").returncode == 0
    remote.env["SECRET"] = "wrong"
    assert "refused with the password" in remote.run("check", "--ssh_password_env=SECRET").stdout
    # Who gives the password itself does not find it in what is said.
    nothing = remote.run("check", f"--ssh_password_env={PASSWORD}")
    assert nothing.returncode == 2 and "no variable of that name" in nothing.stderr
    assert PASSWORD not in nothing.stdout + nothing.stderr


def test_a_learner_that_its_actors_cannot_reach_is_told(remote: Frontend, network: Network):
    first, second = network.hosts[:2]
    remote.csv(
        HEADER,
        network.row("learner", first, 8001),
        network.row("actor", second, 9001),
    )
    assert remote.run("check").returncode == 0
    route = f"ip -n impns{second.number} route"
    networks.sh(f"{route} add blackhole {first.ip}")
    try:
        told = remote.run("check")
    finally:
        networks.sh(f"{route} del blackhole {first.ip}")
    assert told.returncode == 1
    assert f"cannot reach the learner's {first.ip}:8001" in told.stdout


def test_256_rows_are_checked_in_parallel(remote: Frontend, network: Network):
    lines = [HEADER, network.row("learner", network.hosts[0], 8001)]
    lines += [network.row("actor", network.hosts[n % 4], 9000 + n) for n in range(256)]
    remote.csv(*lines)
    assert remote.run("check").returncode == 0


# Stands in for the real one, which needs the network that these hosts do not have.
SETUP = """#!/bin/sh
echo "$@" >set_up_as
test "$(pwd -P)" != "$HOME/broken" || { echo "no room here" >&2; exit 1; }
mkdir -p .venv/bin
printf '#!/bin/sh\\nexec %s "$@"\\n' PYTHON >.venv/bin/python
chmod +x .venv/bin/python
"""


def test_sync_sets_hosts_up_for_what_they_do(remote: Frontend, network: Network):
    setup = remote.folder / "bin" / "setup"
    setup.parent.mkdir()
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
    assert "is another version than here" in told and "the project is not in" in told
    for gone_here in ("cluster/gone.py", "gone.py"):
        (first.home / "impala" / gone_here).write_text("")

    synced = remote.run("sync")
    assert synced.returncode == 0, synced.stdout + synced.stderr
    assert not (second.home / "elsewhere" / "hosts.csv").exists()
    assert remote.run("check").returncode == 0
