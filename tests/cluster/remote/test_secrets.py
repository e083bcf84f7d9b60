"""Passwords, keys and credentials of runs on several hosts: who gets them, and who does not."""

import contextlib
import dataclasses
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import mpi, options
from cluster.inventory import hosts_csv
from cluster.plan import make_plan
from cluster.ssh import logins
from cluster.ssh.passwords import Passwords
from cluster.this_machine import here
from tests.cluster import networks
from tests.cluster.conftest import Frontend, sockets
from tests.cluster.networks import HEADER, PASSWORD, Network, four_hosts
from tests.cluster.terminal import Terminal

pytestmark = [
    pytest.mark.skipif(bool(networks.missing()), reason=networks.missing()),
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("network"),
]


def everything_in(folder: Path) -> Iterator[tuple[Path, str]]:
    for path in folder.rglob("*"):
        if path.is_file() and path.name != "hosts.csv":
            yield path, path.read_text(errors="replace")


def test_the_password_is_nowhere_while_a_run_that_needs_it_goes_on(
    remote: Frontend, network: Network
):
    remote.csv(*four_hosts(network))
    remote.env["SECRET"] = PASSWORD
    outputs = [
        remote.run(action, "--ssh_password_env=SECRET", *flags)
        for action, *flags in (["check"], ["start", "--dry_run"], ["start"], ["status"], ["logs"])
    ]
    assert outputs[0].returncode == 0, outputs[0].stdout + outputs[0].stderr
    assert [done.returncode for done in outputs[1:]] == [0] * 4
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
        assert "No problems found." in terminal.shown and PASSWORD not in terminal.shown
        assert terminal.shown.count("SSH password") == 1
    nobody = subprocess.run(
        command, cwd=remote.folder, env=remote.env, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, start_new_session=True, check=False,
    )  # fmt: skip
    assert nobody.returncode == 2 and "there is no terminal to ask on" in nobody.stderr


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
    me = dataclasses.replace(
        here(), folder=str(remote.folder), known_hosts=str(network.known_hosts)
    )
    spread = make_plan(rows, settings, chosen, me).spread
    config = Path(spread.files[-1][0])
    config.parent.mkdir(parents=True)
    config.write_text(spread.files[-1][1].replace(mpi.RUN_ID, "none"))
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
