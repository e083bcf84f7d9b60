"""Ways to hosts, as an SSH configuration has them: names, ports, users, keys, jump hosts."""

import dataclasses
import subprocess
from pathlib import Path

import pytest

from cluster import mpi
from cluster.inventory import hosts_csv
from cluster.model import Host, Route
from cluster.ssh.routes import Routes, config_of
from tests.cluster.plan.plans import HERE
from user_error import UserError

CONFIG = """
Include more/*.conf

Host gpu*
  User ann
  Port 2201
  IdentityFile ~/.ssh/id_gpu
  ProxyJump bob@bastion:2222,inner

Host plain
  ProxyJump none
Host by-command
  ProxyCommand relay %h %p %r
Host gpu1
  HostName 10.0.0.1
Host inner
  Port 2233
Host bastion
  User nobody
  ProxyJump outer
Host *
  User me2
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh" / "more").mkdir(parents=True)
    (tmp_path / ".ssh" / "config").write_text(CONFIG)
    (tmp_path / ".ssh" / "more" / "a.conf").write_text("Host gpu2\n  HostName=10.0.0.2\n")
    return tmp_path


def routes() -> Routes:
    return Routes(config_of(""), "me")


def test_a_host_is_found_by_its_name_with_its_keys_and_its_jump_hosts(home: Path):
    jumps = (Host("outer", 22, "me2"), Host("bastion", 2222, "bob"), Host("inner", 2233, "me2"))
    keys = (f"{home}/.ssh/id_gpu",)
    assert routes().of(Host("gpu1", 2201, "ann")) == Route("10.0.0.1", keys, jumps)
    assert routes().of(Host("gpu2", 2201, "ann")).address == "10.0.0.2"  # of an included file
    assert routes().of(Host("plain", 22, "me")) == Route("plain")
    # The CSV's values come first, in the command as well.
    assert routes().of(Host("by-command", 2299, "eve")).command == "relay by-command 2299 eve"
    assert Routes("", "me").of(Host("gpu1", 22, "me")) == Route("gpu1")


def test_rows_get_port_and_user_where_they_have_none_and_are_not_of_this_machine(home: Path):
    text = "job,ip,tf_port,ssh_port,ssh_username\nlearner,localhost,8001,,\nactor,gpu1,9001,,\n"
    text += "actor,gpu2,9001,22,eve\nactor,other,9001,,\n"
    rows = routes().filled(hosts_csv.parse(text.encode(), "x"), HERE.is_own_address)
    assert [(row.ssh_port, row.ssh_username) for row in rows] == [
        (None, ""), (2201, "ann"), (22, "eve"), (None, "me2"),
    ]  # fmt: skip


def test_a_configuration_that_cannot_be_used_is_told_in_one_line(home: Path):
    path = home / ".ssh" / "config"
    for text, told in (
        ("Host a\n  Port x\n", f"{path}: Port x of a is no number."),
        ("Host a\n  ProxyJump b\nHost b\n  ProxyJump a\n", "lead back to one another"),
        ("nonsense\n", f"{path} cannot be used: ConfigParseError: Unparsable line nonsense."),
        ("Host a\n ProxyJump b:x\n", "ProxyJump b:x is not [user@]host[:port]"),
    ):
        path.write_text(text)
        with pytest.raises(UserError) as raised:
            row = hosts_csv.Row(1, "actor", "a", 1)
            routes().filled([row], HERE.is_own_address)
            routes().of(Host("a", 22, "me"))
        assert told in str(raised.value) and "\n" not in str(raised.value)
    with pytest.raises(UserError, match="--ssh_config=gone: there is no such file"):
        config_of("gone")
    path.unlink()
    assert config_of("") == config_of("none") == ""


def test_mpiruns_ssh_goes_the_same_way(home: Path):
    here = dataclasses.replace(HERE, ssh_config=config_of(""), route=routes().of)
    ranks = [("localhost", Host("localhost")), ("impala-1-gpu1", Host("gpu1", 2201, "ann"))]
    spread = mpi.spread("/logs", [*ranks, ("impala-2", Host("by-command", 22, "eve"))], set(), here)
    config = home / "mpi"
    config.write_text(spread.files[1][1])

    def asked(name: str) -> dict[str, str]:
        """What OpenSSH itself makes of it."""
        command = ["ssh", "-G", "-F", str(config), name]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)

    gpu = asked("impala-1-gpu1")
    assert (gpu["hostname"], gpu["port"], gpu["user"]) == ("10.0.0.1", "2201", "ann")
    assert gpu["proxyjump"] == "me2@outer:22,bob@bastion:2222,me2@inner:2233"
    assert gpu["identityfile"] == f"{home}/.ssh/id_gpu"
    assert asked("impala-2")["proxycommand"] == "relay by-command 22 eve"
    # The jump hosts have what the user's own configuration says of them, and our known hosts.
    assert asked("inner")["port"] == "2233" and asked("inner")["user"] == "me2"
    assert asked("inner")["userknownhostsfile"] == HERE.known_hosts
    assert asked("elsewhere")["userknownhostsfile"] != HERE.known_hosts
