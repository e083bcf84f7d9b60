"""What is told of keys, and waits that end: an SSH server that does what no real one should."""

import errno
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import paramiko
import pytest

from cluster.model import Host, Route
from cluster.options import Options
from cluster.ssh.failures import HostFailed
from cluster.ssh.passwords import Passwords
from cluster.ssh.ssh import Connections


class Server(paramiko.ServerInterface):
    """Lets in who has a password, nobody by key, and never begins a command."""

    def __init__(self) -> None:
        self.offered: list[str] = []
        self.key = paramiko.ECDSAKey.generate()
        self.over = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        peers = []
        while not self.over.is_set():
            try:
                peers.append(paramiko.Transport(self._listener.accept()[0]))
            except OSError:
                break
            peers[-1].add_server_key(self.key)
            peers[-1].start_server(server=self, event=threading.Event())
        for peer in peers:
            peer.close()

    def close(self) -> None:
        self.over.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def get_allowed_auths(self, username: str) -> str:
        return "password,publickey"

    def check_auth_password(self, username: str, password: str) -> int:
        self.offered.append(password)
        return paramiko.common.AUTH_SUCCESSFUL

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        return paramiko.common.AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.common.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        return self.over.wait(250)


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def known_hosts(folder: Path, server: Server) -> Path:
    path = folder / "known_hosts"
    path.write_text(
        f"[127.0.0.1]:{server.port} {server.key.get_name()} {server.key.get_base64()}\n"
    )
    return path


def failure(host: Host, known: Path, password: str = "", accept: bool = False) -> str:
    """What is told of a command on a host."""
    passwords = Passwords({host: password}, Options())
    connections = Connections(passwords, str(known), accept, timeout_s=30)
    with pytest.raises(HostFailed) as told:
        connections.run(host, "true", "", 1.0)
    connections.close()
    return str(told.value)


def test_a_host_that_never_begins_a_command_is_waited_for_no_longer_than_said(
    server: Server, tmp_path: Path
):
    host = Host("127.0.0.1", server.port, "ann")
    told = failure(host, known_hosts(tmp_path, server), password="hush")
    assert told == "did not answer within 1 s."


@pytest.mark.parametrize("says", [TimeoutError("timed out"), OSError(101, "unreachable")])
def test_a_name_whose_first_address_is_silent_is_reached_at_the_next(
    says: OSError, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    connect, found = socket.socket.connect, socket.getaddrinfo

    def named(name: str, port: int, *more: int) -> list:
        addresses = ("127.0.0.2", "127.0.0.1") if name == "twofold" else (name,)
        return [one for ip in addresses for one in found(ip, port, *more)]

    def connected(own: socket.socket, address: tuple) -> None:
        if address[0] == "127.0.0.2":
            raise says
        connect(own, address)

    monkeypatch.setattr(socket, "getaddrinfo", named)
    monkeypatch.setattr(socket.socket, "connect", connected)
    known = known_hosts(tmp_path, server)
    known.write_text(known.read_text().replace("127.0.0.1", "twofold"))
    told = failure(Host("twofold", server.port, "ann"), known, password="hush")
    assert told == "did not answer within 1 s."  # to the command: the login has worked
    silent = isinstance(says, TimeoutError)
    why = "does not answer at port 1 within 30 s" if silent else "port 1: Connection refused"
    assert failure(Host("twofold", 1, "ann"), known).startswith(f"{why}. Is ")


def test_a_host_without_a_route_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def connect(own: socket.socket, address: tuple) -> None:
        raise OSError(errno.EHOSTUNREACH, "No route to host")

    monkeypatch.setattr(socket.socket, "connect", connect)
    told = failure(Host("127.0.0.1", 22, "ann"), tmp_path / "known_hosts")
    assert told.startswith("does not answer at port 22: No route to host. Is it running")


def test_a_jump_host_is_not_offered_the_password_of_the_hosts_behind_it(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PASSWORD", "hush")
    host, jump = Host("10.0.0.1", 22, "ann"), Host("127.0.0.1", server.port, "bob")
    known = str(known_hosts(tmp_path, server))

    def told(given: dict[Host, str]) -> str:
        passwords = Passwords(given, Options(ssh_password_env="PASSWORD"))
        connections = Connections(
            passwords,
            known,
            False,
            5,
            lambda one: Route(one.ip, (), (jump,) if one == host else ()),
        )
        with pytest.raises(HostFailed) as failed:
            connections.run(host, "true", "", 1.0)
        connections.close()
        return str(failed.value)

    refused = told({})
    assert refused.startswith(f"its jump host {jump}: ") and server.offered == []
    assert "Give Host 127.0.0.1 an IdentityFile in the SSH configuration" in refused
    assert "CSV" not in refused and "ask_ssh_password" not in refused
    monkeypatch.setenv("PASSWORD", "hush")
    assert "jump host before it cannot reach it" in told({jump: "its own"})
    assert server.offered == ["its own"]


@pytest.mark.parametrize("kind", ["rsa", "ecdsa", "ed25519"])
def test_a_key_that_is_refused_is_told_as_such_of_whatever_kind_it_is(
    kind: str, server: Server, tmp_path: Path
):
    key = tmp_path / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", key], check=True)
    host = Host("127.0.0.1", server.port, "ann", str(key))
    told = failure(host, known_hosts(tmp_path, server))
    assert told.startswith(f"login as ann refused with the key {key}.")


@pytest.mark.parametrize("kind", ["rsa", "rsa -m PEM", "ecdsa", "ed25519"])
def test_so_is_one_of_the_ssh_configuration_which_is_not_tried_again(
    kind: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    key = tmp_path / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", *kind.split(), "-N", "", "-f", key], check=True)
    host, known = Host("127.0.0.1", server.port, "ann"), str(known_hosts(tmp_path, server))
    connections = Connections(
        Passwords({}, Options()), known, False, 30, lambda one: Route(one.ip, (str(key),))
    )
    with pytest.raises(HostFailed) as told:
        connections.run(host, "true", "", 1.0)
    connections.close()
    assert str(told.value).startswith("login as ann refused with the key of this user. Fix ")
    assert not told.value.passing


def test_a_key_that_cannot_be_used_is_told_with_its_file(tmp_path: Path):
    key = tmp_path / "id"
    make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "hush hush", "-f", str(key)]
    subprocess.run(make, check=True)
    known = tmp_path / "known_hosts"

    def told(path: Path) -> str:
        return failure(Host("127.0.0.1", 1, "ann", str(path)), known)

    assert told(key).startswith(f"the key {key} is encrypted. Load it with ssh-add")
    assert told(Path(f"{key}.pub")).startswith(f"the key {key}.pub is not a usable private key")
    assert told(tmp_path / "none").startswith(f"the key {tmp_path}/none cannot be read: No such")
    cut = tmp_path / "cut"
    lines = key.read_text().splitlines(keepends=True)
    cut.write_text("".join([*lines[:2], lines[-1]]))
    assert told(cut).startswith(f"the key {cut} is not a usable private key")


def test_a_known_hosts_that_cannot_be_used_is_told(server: Server, tmp_path: Path):
    host = Host("127.0.0.1", server.port, "ann")
    known = tmp_path / "known_hosts"
    known.write_text("h ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAA\n")  # cut off
    assert failure(host, known).startswith(f"{known} has a damaged line: h ssh-ed25519 AAAA")
    for name in ("|1|", "|1|AAAA|AAAA", "|1|bbb|AAAA", "h,|1|AA"):  # hashed, and cut off
        known.write_text(f"{name} ssh-ed25519 AAAA\n")
        assert failure(host, known).startswith(f"{known} has a damaged line: {name} ssh-ed25519")
    known.write_bytes(b"h ssh-ed25519 AAAA \xff\n")
    assert failure(host, known).startswith(f"{known} is not a text file.")
    assert failure(host, tmp_path).startswith(f"{tmp_path} cannot be read: Is a directory.")
    nowhere = known / "known_hosts"  # below a file
    told = failure(host, nowhere, accept=True)
    assert told.startswith(f"its host key cannot be added to {nowhere}: ")


def test_lines_with_markers_stop_no_host_and_revoked_keys_are_refused(
    server: Server, tmp_path: Path
):
    host = Host("127.0.0.1", server.port, "ann")
    known = known_hosts(tmp_path, server)
    line, key = known.read_text(), f"{server.key.get_name()} {server.key.get_base64()}"
    known.write_text(f"@cert-authority *.example.com {key}\n{line}")
    assert failure(host, known, password="hush") == "did not answer within 1 s."
    # For a plain key, a line of an authority says nothing.
    known.write_text(f"@cert-authority * {key}\n")
    assert failure(host, known, password="hush").startswith("its host key is not known")
    for accept in (False, True):
        known.write_text(f"{line}@revoked * {key}\n")
        told = failure(host, known, password="hush", accept=accept)
        assert told.startswith(f"its host key is revoked in {known}.")
        assert known.read_text().count("\n") == 2


class Refusing(Server):
    """Begins commands, which end before they have read all of their input."""

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        def refuse() -> None:
            channel.recv(1000)
            channel.send_stderr(b"a run is running in it\n")
            channel.send_exit_status(1)
            channel.close()

        threading.Thread(target=refuse, daemon=True).start()
        return True


def test_a_command_that_ends_before_it_has_read_everything_is_heard(tmp_path: Path):
    server = Refusing()
    host = Host("127.0.0.1", server.port, "ann")
    known = str(known_hosts(tmp_path, server))
    connections = Connections(Passwords({host: "hush"}, Options()), known, False, 30)
    much = "x" * 5_000_000  # more than a channel's window
    told = connections.run(host, "unpack", much, 20.0)
    assert told == (1, "", "a run is running in it\n")
    connections.close()
    server.close()


def test_a_kept_connection_that_has_closed_is_made_anew(server: Server, tmp_path: Path):
    host = Host("127.0.0.1", server.port, "ann")
    known = known_hosts(tmp_path, server)
    connections = Connections(Passwords({host: "hush"}, Options()), str(known), False, 30)
    for _ in range(2):
        with pytest.raises(HostFailed, match="did not answer within 0.5 s") as told:
            connections.run(host, "true", "", 0.5)
        assert told.value.passing
        # As after a host was away: closed, and nobody has noticed.
        for client in connections._clients.values():
            client.close()
    connections.close()


class Answering(Server):
    """Begins commands; what a start-up file prints comes before the answer to a line."""

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        def answer() -> None:
            channel.recv(1000)
            channel.sendall(b"welcome\nmark:" + ANSWER.encode() + b"\n")

        threading.Thread(target=answer, daemon=True).start()
        return True


ANSWER = '{"last_lines": ["a line of a log with mark: in it"]}'


def test_a_line_of_a_log_cannot_pass_for_an_answer(tmp_path: Path):
    server = Answering()
    host = Host("127.0.0.1", server.port, "ann")
    known = str(known_hosts(tmp_path, server))
    connections = Connections(Passwords({host: "hush"}, Options()), known, False, 30)
    assert connections.ask(host, "python", b"", "mark:", "{}", 20.0).strip() == ANSWER
    connections.close()
    server.close()
