"""Connections to hosts: keys are checked, waits are bounded, failures say what to do."""

import logging
import socket
import threading
import time
from pathlib import Path

import paramiko

from cluster.model import Host
from cluster.ssh import session
from cluster.ssh.failures import HostFailed, failure
from cluster.ssh.keys import AppendNew, Client, RefuseNew, load_known, private_key
from cluster.ssh.passwords import Passwords

# Its threads would print tracebacks of failures that are reported here in one line.
logging.getLogger("paramiko").setLevel(logging.CRITICAL + 1)

SYSTEM_KNOWN_HOSTS = "/etc/ssh/ssh_known_hosts"
# So that repeated looks wait only once for a host that is gone, not every time.
TRIED_AGAIN_AFTER_S = 15.0
# sshd refuses more than 10 at once on a connection, unless its MaxSessions says otherwise.
SESSIONS_AT_ONCE = 8
# A host that dies in a long request, such as a setup, is noticed after the sum of these.
ASKED_EVERY_S = 15
GONE_AFTER_S = 45


class Connections:
    """One connection to each login, made when it is first needed and kept."""

    def __init__(
        self, passwords: Passwords, known_hosts: str, accept_new_keys: bool, timeout_s: float
    ):
        self.passwords = passwords
        self._known_hosts = Path(known_hosts)
        self._policy = AppendNew(self._known_hosts) if accept_new_keys else RefuseNew()
        self._timeout_s = timeout_s
        self._clients: dict[Host, paramiko.SSHClient] = {}
        self._failed: dict[Host, tuple[float, HostFailed]] = {}
        self._locks: dict[Host, threading.Lock] = {}
        self._sessions: dict[Host, threading.Semaphore] = {}

    def run(self, host: Host, command: str, text: str, seconds: float) -> tuple[int, str, str]:
        """Runs a command with a text as its input; returns exit code, output and errors."""
        with self._locks.setdefault(host, threading.Lock()):
            if not _is_open(self._clients.get(host)):
                self._clients[host] = self._try(host)
            client = self._clients[host]
            sessions = self._sessions.setdefault(host, threading.Semaphore(SESSIONS_AT_ONCE))
        try:
            with sessions:
                return session.run(client, command, text, seconds)
        except (OSError, EOFError, paramiko.SSHException) as error:
            with self._locks[host]:
                if self._clients.get(host) is client:  # not another's fresh connection
                    del self._clients[host]
            client.close()
            if isinstance(error, TimeoutError):
                raise HostFailed(f"did not answer within {seconds:g} s", passing=True) from None
            what = f"the connection broke: {error or type(error).__name__}"
            raise HostFailed(what, passing=True) from None

    def close(self) -> None:
        """Closes all connections."""
        for client in self._clients.values():
            client.close()

    def _try(self, host: Host) -> paramiko.SSHClient:
        """A connection; just after a failure, the same failure again."""
        when, before = self._failed.get(host, (-TRIED_AGAIN_AFTER_S, None))
        if before and time.monotonic() < when + TRIED_AGAIN_AFTER_S:
            raise before
        try:
            return self._connect(host)
        except HostFailed as error:
            self._failed[host] = time.monotonic(), error
            raise

    def _connect(self, host: Host) -> paramiko.SSHClient:
        client = Client()
        client.set_missing_host_key_policy(self._policy)
        password = None if host.key else self.passwords.of(host)
        own = not host.key and not password
        try:
            for path in (SYSTEM_KNOWN_HOSTS, str(self._known_hosts)):
                load_known(client, path)
            client.connect(
                host.ip,
                port=host.ssh_port,
                username=host.username,
                password=password,
                pkey=private_key(host.key) if host.key else None,
                timeout=self._timeout_s,
                banner_timeout=self._timeout_s,
                auth_timeout=self._timeout_s,
                channel_timeout=self._timeout_s,
                # Other keys than the given one would use up the attempts that a host allows.
                allow_agent=own,
                look_for_keys=own,
            )
        except (OSError, EOFError, paramiko.SSHException, ValueError) as error:
            client.close()
            raise failure(host, error, bool(password), self._known_hosts, self._timeout_s) from None
        _keep_alive(client)
        return client


def _is_open(client: paramiko.SSHClient | None) -> bool:
    transport = client.get_transport() if client else None
    return transport is not None and transport.is_active()


def _keep_alive(client: paramiko.SSHClient) -> None:
    """Sends something now and then, and lets the kernel give up if nothing confirms it."""
    transport = client.get_transport()
    if transport is not None:
        transport.set_keepalive(ASKED_EVERY_S)
        transport.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, GONE_AFTER_S * 1000)
