"""One connection to a host: over a socket, through another host, or through a command."""

import contextlib
import functools
import os.path
import socket
import subprocess

import paramiko

from cluster.model import Host, Route
from cluster.ssh.certificates import Transport
from cluster.ssh.keys import private_key
from cluster.ssh.known_hosts import KnownHosts

# A host that dies in a long request, such as a setup, is noticed after the sum of these.
ASKED_EVERY_S = 15
GONE_AFTER_S = 45


class Client(paramiko.SSHClient):
    """A connection that ends the command which carries it, if there is one."""

    carrier: subprocess.Popen | None = None

    def close(self) -> None:
        """Ends it."""
        super().close()
        if self.carrier:
            self.carrier.terminate()
            self.carrier.wait()


class _Checked(paramiko.MissingHostKeyPolicy):
    """Asks our own known hosts; paramiko's know neither certificates nor patterns."""

    def __init__(self, known: KnownHosts, address: str, port: int):
        self._known = known
        self._address, self._port = address, port

    def missing_host_key(
        self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey
    ) -> None:
        transport = client.get_transport()
        assert isinstance(transport, Transport)
        self._known.check(self._address, self._port, key, transport.shown)


def connect(
    client: Client,
    host: Host,
    route: Route,
    before: paramiko.SSHClient | None,
    known: KnownHosts,
    password: str | None,
    with_keys: bool,
    timeout_s: float,
) -> None:
    """Logs in, through the host ``before`` if there is one; ``with_keys``: those of this user."""
    client.set_missing_host_key_policy(_Checked(known, route.address, host.ssh_port))
    kinds = known.kinds(route.address, host.ssh_port)
    try:
        client.connect(
            route.address,
            port=host.ssh_port,
            username=host.username,
            password=password,
            pkey=private_key(host.key) if host.key else None,
            key_filename=[path for path in route.keys if with_keys and _may_be_read(path)],
            timeout=timeout_s,
            banner_timeout=timeout_s,
            auth_timeout=timeout_s,
            channel_timeout=timeout_s,
            # Other keys than the given one would use up the attempts that a host allows.
            allow_agent=with_keys,
            look_for_keys=with_keys,
            sock=_carried(client, host, route, before, timeout_s),
            transport_factory=functools.partial(Transport, kinds=kinds),
        )
    except paramiko.SSHException as error:
        if _is_refused(client, error):
            raise paramiko.AuthenticationException("no key was accepted") from None
        raise
    _keep_alive(client)


def _may_be_read(path: str) -> bool:
    """Whether it is a file that this user may read; ssh goes on to the next key as well."""
    return os.path.isfile(path) and os.access(path, os.R_OK)


def _is_refused(client: Client, error: paramiko.SSHException) -> bool:
    """Whether the host has let nobody in, although the error is another one.

    paramiko reads each of the route's keys as one kind after the other, and then raises the error
    of the last kind instead of the host's refusal.
    """
    transport = client.get_transport()
    return (
        type(error) is paramiko.SSHException
        and "No authentication methods" not in str(error)
        and isinstance(transport, Transport)
        and transport.is_active()
        and bool(transport.shown)
        and not transport.is_authenticated()
    )


def _carried(
    client: Client,
    host: Host,
    route: Route,
    before: paramiko.SSHClient | None,
    timeout_s: float,
) -> socket.socket | paramiko.Channel:
    """What carries the connection."""
    if before:
        transport = before.get_transport()
        if transport is None:
            raise EOFError
        there, here = (route.address, host.ssh_port), ("127.0.0.1", 0)
        return transport.open_channel("direct-tcpip", there, here, timeout=timeout_s)
    if not route.command:
        return _called(route.address, host.ssh_port, timeout_s)
    # One descriptor, where paramiko's own way needs three, all with low numbers.
    ours, theirs = socket.socketpair()
    with theirs:
        client.carrier = subprocess.Popen(
            ["sh", "-c", f"exec {route.command}"],
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the frontend
        )
    return ours


def _called(address: str, port: int, timeout_s: float) -> socket.socket:
    """A socket to the first of a name's addresses that answers.

    paramiko itself would not go on to the next one after a silent one.
    """
    try:
        return socket.create_connection((address, port), timeout_s, all_errors=True)
    except ExceptionGroup as failed:
        silent = [one for one in failed.exceptions if isinstance(one, TimeoutError)]
        raise (silent or failed.exceptions)[-1] from None


def _keep_alive(client: paramiko.SSHClient) -> None:
    """Sends something now and then, and lets the kernel give up if nothing confirms it."""
    transport = client.get_transport()
    if transport is None:
        return
    transport.set_keepalive(ASKED_EVERY_S)
    if isinstance(transport.sock, socket.socket):
        with contextlib.suppress(OSError):  # a command carries it
            transport.sock.setsockopt(
                socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, GONE_AFTER_S * 1000
            )
