"""Who may call a learner, and what is told of those who may not."""

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
    """Knows the token, and tells of each kind of stranger once, however often one comes."""

    def __init__(self, token: bytes, address: str, timeout_s: float, say: Callable[[str], None]):
        self._token = token
        self._address = address
        self._timeout_s = timeout_s
        self._say = say
        self._told: set[str] = set()
        self._lock = threading.Lock()
        self._callers: dict[str, None] = {}  # connections that have called, the newest last
        # When those connected who have not called yet, on a clock that stands with this process:
        # after a standstill of its own, nobody else was silent.
        self._silent: collections.deque[float] = collections.deque(maxlen=MOST_REMEMBERED)
        self._time = 0.0
        self._looked = time.monotonic()

    def knows(self, metadata: Sequence[tuple[str, Any]]) -> bool:
        """Whether a call comes with the token."""
        given = [value for key, value in metadata if key == TOKEN]
        return len(given) == 1 and hmac.compare_digest(given[0], self._token)

    def refuse(self, kind: str, peer: str, why: str) -> None:
        """Tells of a refusal, once for each kind."""
        self._tell(kind, f"a call{_from(peer)} was refused: {why}")

    def connected(self) -> None:
        """Somebody has connected and is about to prove that it speaks TLS."""
        self._silent.append(self._time)

    def called(self, peer: str) -> None:
        """A call came in, on a connection that counts as silent until its first one."""
        with self._lock:
            # Of a call that has ended already, nobody knows the connection.
            if peer and peer in self._callers:
                return
            self._callers[peer] = None
            if len(self._callers) > MOST_REMEMBERED:
                del self._callers[next(iter(self._callers))]
            if self._silent:
                self._silent.popleft()

    def look(self) -> None:
        """Tells of connections that came to nothing; to be called now and then."""
        now = time.monotonic()
        self._time += min(now - self._looked, 1.0)
        self._looked = now
        if self._silent and self._time - self._silent[0] > self._timeout_s:
            self._silent.clear()
            self._tell(
                "connection",
                f"somebody connected to {self._address} and made no call: an actor that gave up, a "
                "port scan, or one who does not speak TLS or expects another certificate",
            )

    def _tell(self, kind: str, text: str) -> None:
        with self._lock:
            if kind in self._told:
                return
            self._told.add(kind)
        self._say(f"{text}. This is told once.")


def _from(peer: str) -> str:
    """The address in gRPC's name of a peer, such as ipv6:%5B::1%5D:55324."""
    host = urllib.parse.unquote(peer).partition(":")[2].rpartition(":")[0]
    return f" from {host}" if host else ""
