"""How a learner listens: its addresses, certificate and limits."""

import errno
import ipaddress
import resource
import socket
from collections.abc import Callable
from typing import Any

import grpc

from credentials import Credentials
from transport.secure import calls
from user_error import UserError

MOST_CONNECTIONS = 1024
OTHER_FILES = 512
# Actors call far more often, and reconnect by themselves.
LONGEST_IDLE_S = 60.0


def options(timeout_s: float) -> list[tuple[str, int]]:
    """Limits on what strangers and vanished actors can use up."""
    timeout_ms = int(timeout_s * 1000)
    return [
        *calls.LIMITS,
        ("grpc.so_reuseport", 0),  # else two learners could share a port
        ("grpc.max_allowed_incoming_connections", _room()),
        ("grpc.max_concurrent_streams", 8),
        ("grpc.server_handshake_timeout_ms", timeout_ms),
        ("grpc.max_connection_idle_ms", int(max(LONGEST_IDLE_S, 4 * timeout_s) * 1000)),
        # Connections whose other end is gone or hangs are closed, with their calls.
        ("grpc.keepalive_time_ms", timeout_ms),
        ("grpc.keepalive_timeout_ms", timeout_ms),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
    ]


def _room() -> int:
    """For how many connections this process may open files, beside all else that it writes."""
    wanted = MOST_CONNECTIONS + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(1, min(MOST_CONNECTIONS, soft - OTHER_FILES))


def listen(
    server: Any,
    host: str,
    port: int,
    credentials: Credentials,
    connected: Callable[[], None],
    say: Callable[[str], None],
) -> None:
    """Opens the port at the given address, and at no other.

    ``connected`` is called for each new connection, before anything is received on it. ``say``
    prints a warning if only this machine can make any.
    """
    tls = _tls(credentials, connected)
    ips = _ips(host, port)
    if all(map(_is_loopback, ips)) and not _is_loopback(host):
        say(
            f"warning: --learner_host={host}:{port}: this machine knows {host} as {ips[0]} only "
            "(see its /etc/hosts), where no other can reach it. Give its address for actors "
            "elsewhere."
        )
    try:
        for ip in ips:
            server.add_secure_port(f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}", tls)
    except RuntimeError as error:  # another process was faster
        raise UserError(f"--learner_host={host}:{port}: cannot listen there ({error}).") from None


def _tls(credentials: Credentials, connected: Callable[[], None]) -> Any:
    mine = [(credentials.key, credentials.certificate)]
    # The certificate never changes, but gRPC asks for it on each connection: that counts them.
    return grpc.dynamic_ssl_server_credentials(
        grpc.ssl_server_certificate_configuration(mine), connected
    )


def _ips(host: str, port: int) -> list[str]:
    """The addresses of a host to listen on.

    A name may have some that this machine does not use, such as localhost without IPv6.
    """
    ips, failed = [], OSError(0, "it has no address")
    try:
        found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    except OSError as error:
        found, failed = [], error
    for family, _, _, _, address in dict.fromkeys(found):
        try:
            with socket.socket(family) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
        except OSError as error:
            failed = error
            if error.errno == errno.EADDRINUSE:
                raise _cannot_listen(host, port, error) from None
        else:
            ips.append(str(address[0]))
    if not ips:
        raise _cannot_listen(host, port, failed)
    return ips


def _is_loopback(host: str) -> bool:
    """Whether an address, or a name by itself, stands for the machine that it is used on."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        name = host.lower().removeprefix("ip6-")
        return name.startswith(("localhost", "loopback")) or name.endswith(".localhost")


def _cannot_listen(host: str, port: int, error: OSError) -> UserError:
    hint = ""
    if error.errno == errno.EADDRNOTAVAIL:
        hint = " A secure learner listens only there: give an address of this machine."
    return UserError(f"--learner_host={host}:{port}: cannot listen there ({error.strerror}).{hint}")
