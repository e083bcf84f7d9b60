"""Decides which callers a learner accepts, and reports the others."""

import collections
import hmac
import threading
import time
import urllib.parse
from collections.abc import Callable, Sequence
from typing import Any

from transport.secure.calls import TOKEN

MOST_REMEMBERED = 2048


class Guard:
    """Checks the token, and reports each kind of refusal once, however often it happens."""

    def __init__(self, token: bytes, address: str, timeout_s: float, say: Callable[[str], None]):
        self._token = token
        self._address = address
        self._timeout_s = timeout_s
        self._say = say
        self._reported: set[str] = set()
        self._lock = threading.Lock()
        self._callers: dict[str, None] = {}  # connections that have called, the newest last
        # When the connections without a call were opened, on a clock that stops while this process
        # is paused: its own pause does not make others silent.
        self._silent: collections.deque[float] = collections.deque(maxlen=MOST_REMEMBERED)
        self._time = 0.0
        self._looked = time.monotonic()

    def knows(self, metadata: Sequence[tuple[str, Any]]) -> bool:
        """Whether a call comes with the token."""
        given = [value for key, value in metadata if key == TOKEN]
        return len(given) == 1 and hmac.compare_digest(given[0], self._token)

    def refuse(self, kind: str, peer: str, why: str) -> None:
        """Reports a refusal, once for each kind."""
        self._report(kind, f"a call{_from(peer)} was refused: {why}")

    def connected(self) -> None:
        """Notes a new connection, before its TLS handshake."""
        self._silent.append(self._time)

    def called(self, peer: str) -> None:
        """Notes a call, whose connection counted as silent until its first one."""
        with self._lock:
            # The connection of a call that has already ended is unknown.
            if peer and peer in self._callers:
                return
            self._callers[peer] = None
            if len(self._callers) > MOST_REMEMBERED:
                del self._callers[next(iter(self._callers))]
            if self._silent:
                self._silent.popleft()

    def look(self) -> None:
        """Reports connections without a call; to be called regularly."""
        now = time.monotonic()
        self._time += min(now - self._looked, 1.0)
        self._looked = now
        with self._lock:  # a call takes the oldest away
            is_late = bool(self._silent) and self._time - self._silent[0] > self._timeout_s
            if is_late:
                self._silent.clear()
        if is_late:
            self._report(
                "connection",
                f"a client connected to {self._address} and made no call: an actor that gave up, a "
                "port scan, or a client without TLS or with another certificate",
            )

    def _report(self, kind: str, text: str) -> None:
        with self._lock:
            if kind in self._reported:
                return
            self._reported.add(kind)
        self._say(f"{text}. Further ones are not reported.")


def _from(peer: str) -> str:
    """The address in gRPC's name of a peer, such as ipv6:%5B::1%5D:55324."""
    host = urllib.parse.unquote(peer).partition(":")[2].rpartition(":")[0]
    return f" from {host}" if host else ""
