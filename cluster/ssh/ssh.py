"""Connections to hosts: keys are checked, waits are bounded, failures say what to do."""

import logging
import shlex
import socket
import threading
import time
from pathlib import Path

import paramiko

from cluster.model import Host
from cluster.ssh import session
from cluster.ssh.keys import (
    ENCRYPTED,
    AppendNew,
    BadFile,
    NewKey,
    RefuseNew,
    load_known,
    private_key,
)
from cluster.ssh.passwords import Passwords

# Its threads would print tracebacks of failures that are reported here in one line.
logging.getLogger("paramiko").setLevel(logging.CRITICAL + 1)

SYSTEM_KNOWN_HOSTS = "/etc/ssh/ssh_known_hosts"
# So that repeated looks wait only once for a host that is gone, not every time.
TRIED_AGAIN_AFTER_S = 15.0
# sshd refuses more than 10 at once on a connection, unless its MaxSessions says otherwise.
SESSIONS_AT_ONCE = 8


class HostFailed(Exception):
    """A problem with a host, and how to fix it."""

    def __init__(self, problem: str, remedy: str = ""):
        super().__init__(problem)
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.problem}. {self.remedy}".rstrip()


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
            client = self._clients.get(host) or self._try(host)
            self._clients[host] = client
            sessions = self._sessions.setdefault(host, threading.Semaphore(SESSIONS_AT_ONCE))
        try:
            with sessions:
                return session.run(client, command, text, seconds)
        except (OSError, EOFError, paramiko.SSHException) as error:
            self._clients.pop(host, None)
            client.close()
            if isinstance(error, TimeoutError):
                raise HostFailed(f"did not answer within {seconds:g} s") from None
            raise HostFailed(f"the connection broke: {error or type(error).__name__}") from None

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
        client = paramiko.SSHClient()
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
            raise self._failure(host, error, bool(password)) from None
        return client

    def _failure(self, host: Host, error: Exception, by_password: bool) -> HostFailed:
        """The problem and remedy for a failed connection."""
        where = f"port {host.ssh_port}"
        if isinstance(error, BadFile):
            return HostFailed(error.problem, error.remedy)
        if isinstance(error, NewKey):
            return HostFailed(
                f"its host key is not known ({error})",
                "Compare it with the host's own key, then give --accept_new_host_keys",
            )
        if isinstance(error, paramiko.BadHostKeyException):
            name = _known_name(host)
            return HostFailed(
                f"its host key has CHANGED (now {error.key.fingerprint})",
                "It may be another machine. If the change is yours: "
                f"ssh-keygen -R {shlex.quote(name)} -f {shlex.quote(str(self._known_hosts))}",
            )
        if isinstance(error, paramiko.PasswordRequiredException):
            return HostFailed("this user's key is encrypted", ENCRYPTED)
        if isinstance(error, paramiko.AuthenticationException):
            means = "the password" if by_password else f"the key {host.key or 'of this user'}"
            return HostFailed(
                f"login as {host.username} refused with {means}",
                "Fix ssh_username, ssh_password or ssh_key in the CSV, and name it with "
                "--workers_csv_path",
            )
        if "No authentication methods" in str(error):
            return HostFailed(
                "there is no key and no password to log in with",
                "Give ssh_key or ssh_password in the CSV, or --ask_ssh_password",
            )
        if isinstance(error, socket.gaierror):
            return HostFailed("its name cannot be resolved", "Fix column ip in the CSV")
        # paramiko raises the second for a session that ended because no banner came.
        if "banner" in str(error) or "No existing session" in str(error):
            return HostFailed(
                f"{where} is open, but no SSH server answers within {self._timeout_s:g} s",
                "Check sshd there, or fix ssh_port",
            )
        if isinstance(error, TimeoutError):
            return HostFailed(
                f"does not answer at {where} within {self._timeout_s:g} s",
                "Is it running, and is the network open?",
            )
        if isinstance(error, paramiko.ssh_exception.NoValidConnectionsError):
            reasons = {one.strerror for one in error.errors.values()}
            return HostFailed(
                f"{where}: {' / '.join(sorted(map(str, reasons)))}",
                "Is sshd running there, and is ssh_port right?",
            )
        return HostFailed(f"SSH at {where}: {error or type(error).__name__}")


def _known_name(host: Host) -> str:
    """The name of a host in known_hosts."""
    return host.ip if host.ssh_port == 22 else f"[{host.ip}]:{host.ssh_port}"
