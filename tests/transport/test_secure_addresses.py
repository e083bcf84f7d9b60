"""The secure transport listens at the given address only."""

import socket

import pytest

from benchmarks.tools.ports import free_port
from tests.transport.ends import (
    TIMEOUT_S,
    secure_server,
)
from transport import secure
from user_error import UserError

pytestmark = pytest.mark.usefixtures("secure_ends")


def test_an_ipv6_address_does_not_open_the_port_on_ipv4(secure_ends, ipv6_port):
    made = secure.Server(
        "[::1]", ipv6_port, secure_ends.learner,
        most_bytes=1, timeout_s=TIMEOUT_S, say=lambda _: None,
    )  # fmt: skip
    socket.create_connection(("::1", ipv6_port)).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", ipv6_port))
    made.close()


def test_only_the_given_address_accepts_connections(secure_ends):
    with socket.socket() as probe:
        probe.bind(("127.0.0.5", 0))
        port = probe.getsockname()[1]
    made = secure.Server(
        "127.0.0.5", port, secure_ends.learner,
        most_bytes=1, timeout_s=TIMEOUT_S, say=lambda _: None,
    )  # fmt: skip
    socket.create_connection(("127.0.0.5", port)).close()
    for other in ("127.0.0.1", "127.0.0.6"):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((other, port))
    made.close()


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("192.0.2.1", "Cannot assign requested address.*give an address of this machine"),
        ("no-such-host.invalid", "cannot listen there"),
    ],
)
def test_an_address_of_another_machine_is_reported(secure_ends, host, words):
    with pytest.raises(UserError, match=words):
        secure.Server(
            host, 8001, secure_ends.learner, most_bytes=1, timeout_s=1.0, say=lambda _: None
        )


def test_a_port_in_use_is_reported(secure_ends):
    with (
        secure_server(secure_ends) as (_, connection),
        pytest.raises(UserError, match="cannot listen there .Address already in use"),
    ):
        host, port = connection._learner.split(":")
        secure.Server(
            host, int(port), secure_ends.learner, most_bytes=1, timeout_s=1.0, say=lambda _: None
        )


def test_a_name_that_means_loopback_on_this_machine_alone_is_warned_of(secure_ends, monkeypatch):
    # As Debian's installer writes it into /etc/hosts; actors here, or through a tunnel, reach it.
    real = socket.getaddrinfo

    def known(host, *more, **others):
        return real({"gpu1": "127.0.1.1"}.get(host, host), *more, **others)

    monkeypatch.setattr(socket, "getaddrinfo", known)
    said: list[str] = []
    for host in ("gpu1", "localhost", "127.0.1.1"):
        port = free_port()
        made = secure.Server(
            host, port, secure_ends.learner, most_bytes=1, timeout_s=1.0, say=said.append
        )
        socket.create_connection((host, port)).close()
        made.close()
    [line] = [line for line in said if "warning" in line]
    assert "--learner_host=gpu1:" in line and "this machine knows gpu1 as 127.0.1.1 only" in line
