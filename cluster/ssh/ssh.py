"""Connections to hosts: kept, with waits that are bounded and failures that say what to do."""

import contextlib
import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import paramiko

from cluster.model import Host, Route, direct
from cluster.ssh import session
from cluster.ssh.alarms import Alarms
from cluster.ssh.connecting import Client, connect
from cluster.ssh.failures import HostFailed, failure
from cluster.ssh.known_hosts import KnownHosts
from cluster.ssh.passwords import Passwords

# Its threads would print tracebacks of failures that are reported here in one line.
logging.getLogger("paramiko").setLevel(logging.CRITICAL + 1)

SYSTEM_KNOWN_HOSTS = "/etc/ssh/ssh_known_hosts"
# So that repeated looks wait only once for a host that is gone, not every time.
TRIED_AGAIN_AFTER_S = 15.0
# sshd refuses more than 10 at once on a connection, unless its MaxSessions says otherwise.
SESSIONS_AT_ONCE, SESSIONS_KEPT = 6, 3
# At the end; a host that is away is not waited for any longer.
ENDS_WITHIN_S = 2.0

# A host, after the hosts through which it is reached.
Way = tuple[Host, ...]


class Connections:
    """One connection to each login, made when it is first needed and kept."""

    def __init__(
        self,
        passwords: Passwords,
        known_hosts: str,
        accept_new_keys: bool,
        timeout_s: float,
        route: Callable[[Host], Route] = direct,
        tried_again_after_s: float = TRIED_AGAIN_AFTER_S,
    ):
        self.passwords = passwords
        self._known_path = Path(known_hosts)
        self._known = KnownHosts(
            (SYSTEM_KNOWN_HOSTS, known_hosts), self._known_path if accept_new_keys else None
        )
        self._timeout_s = timeout_s
        self._route = route
        self._tried_again_after_s = tried_again_after_s
        self._alarms = Alarms()
        self._clients: dict[Way, Client] = {}
        self._failed: dict[Way, tuple[float, HostFailed]] = {}
        self._locks: dict[Way, threading.Lock] = {}
        self._sessions: dict[Way, threading.Semaphore] = {}
        self._kept: dict[Way, list[tuple[str, session.Kept]]] = {}

    def run(self, host: Host, command: str, text: str, seconds: float) -> tuple[int, str, str]:
        """Runs a command with a text as its input; returns exit code, output and errors."""
        with self._used(host, seconds) as (_, client):
            return session.run(client, command, text, seconds, self._alarms)

    def ask(
        self, host: Host, command: str, program: bytes, mark: str, line: str, seconds: float
    ) -> str:
        """The answer to a line of a command that is kept for the next; see ``session.Kept``.

        ``session.Ended``: the command ends at once.
        """
        with self._used(host, seconds) as (way, client):
            kept = self._taken(way, command, client)
            if kept:
                with contextlib.suppress(session.Ended):  # since the last time
                    return self._asked(way, command, kept, line, seconds)
            fresh = session.Kept(client, command, program, mark, seconds, self._alarms)
            return self._asked(way, command, fresh, line, seconds)

    def close(self) -> None:
        """Closes all connections, those through others first; leaves no command behind."""
        kept = [one for those in self._kept.values() for _, one in those]
        for one in kept:
            one.end()
        end = time.monotonic() + ENDS_WITHIN_S
        for one in kept:
            one.close(max(0.0, end - time.monotonic()))
        for way in sorted(self._clients, key=len, reverse=True):
            self._clients.pop(way).close()

    def _asked(self, way: Way, command: str, kept: session.Kept, line: str, seconds: float) -> str:
        answer = kept.ask(line, seconds)
        with self._locks[way]:
            there = self._kept.setdefault(way, [])
            there.append((command, kept))
            # One for each command: several only ask the same place in the checks.
            same = [one for one in there if one[0] == command][:-1]
            for old in same or there[:-SESSIONS_KEPT]:
                there.remove(old)
                old[1].close()
        return answer

    def _taken(self, way: Way, command: str, client: Client) -> session.Kept | None:
        with self._locks[way]:
            for one in self._kept.get(way, []):
                if one[0] == command and one[1].client is client:
                    self._kept[way].remove(one)
                    return one[1]
        return None

    @contextlib.contextmanager
    def _used(self, host: Host, seconds: float) -> Iterator[tuple[Way, Client]]:
        """The connection; one that breaks meanwhile is closed, and that is a failure."""
        way = (*self._route(host).jumps, host)
        client = self._open(way)
        try:
            with self._sessions.setdefault(way, threading.Semaphore(SESSIONS_AT_ONCE)):
                yield way, client
        except (OSError, EOFError, paramiko.SSHException) as error:
            with self._locks[way]:
                if self._clients.get(way) is client:  # not another's fresh connection
                    del self._clients[way]
                    self._kept.pop(way, None)
            client.close()
            if isinstance(error, TimeoutError):
                raise HostFailed(f"did not answer within {seconds:g} s", passing=True) from None
            what = f"the connection broke: {error or type(error).__name__}"
            raise HostFailed(what, passing=True) from None

    def _open(self, way: Way, is_jump: bool = False) -> Client:
        """The connection, or a new one; just after a failure, the same failure again."""
        with self._locks.setdefault(way, threading.Lock()):
            client = self._clients.get(way)
            if client and _is_open(client):
                return client
            self._kept.pop(way, None)
            when, failed = self._failed.get(way, (0.0, None))
            if failed and time.monotonic() < when + self._tried_again_after_s:
                raise failed
            try:
                self._clients[way] = self._connected(way, is_jump)
            except HostFailed as error:
                self._failed[way] = time.monotonic(), error
                raise
            return self._clients[way]

    def _connected(self, way: Way, is_jump: bool) -> Client:
        *jumps, host = way
        try:
            before = self._open(tuple(jumps), is_jump=True) if jumps else None
        except HostFailed as error:
            what = f"its jump host {jumps[-1]}: {error.problem}"
            raise HostFailed(what, error.remedy, error.passing) from None
        route, client = self._route(host), Client()
        password = None if host.key else self.passwords.of(host, is_jump)
        with_keys = is_jump or not (host.key or password)
        try:
            connect(client, host, route, before, self._known, password, with_keys, self._timeout_s)
        except (OSError, EOFError, paramiko.SSHException, ValueError) as error:
            client.close()
            called = dataclasses.replace(host, ip=route.address)
            jump = host.ip if is_jump else ""
            raise failure(
                called, error, bool(password), self._known_path, self._timeout_s, jump
            ) from None
        return client


def _is_open(client: Client) -> bool:
    transport = client.get_transport()
    return transport is not None and transport.is_active()
