"""Checks whether actors can reach their learners, with stand-ins that listen on their ports."""

import contextlib
import select
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

REACHES_WITHIN_S = 8.0
LISTENS_S = 12.0
AGAIN_S = 0.2


def listen(request: dict[str, Any]) -> dict[str, Any]:
    """Opens ports until each was reached as often as expected, or for a few seconds."""
    left = {}
    for port, times in request["expected"]:
        try:
            left[_server(port)] = times
        except OSError:
            continue  # reported by the check of free ports
    end = time.monotonic() + LISTENS_S
    while left and time.monotonic() < end:
        for server in select.select(list(left), [], [], AGAIN_S)[0]:
            server.accept()[0].close()
            left[server] -= 1
            if not left[server]:
                server.close()
                del left[server]
    for server in left:
        server.close()
    return {}


def _server(port: int) -> socket.socket:
    """Listens on all addresses, IPv6 included where available, as TensorFlow does."""
    if not socket.has_dualstack_ipv6():
        return socket.create_server(("", port))
    return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)


def reach(request: dict[str, Any]) -> dict[str, Any]:
    """The addresses that cannot be reached; the listeners there may need a moment to start."""
    addresses, end = request["addresses"], time.monotonic() + REACHES_WITHIN_S
    # All at once: the listeners do not stay for long, and an address without answer takes time.
    with ThreadPoolExecutor(min(64, len(addresses)) or 1) as pool:
        reached = list(pool.map(lambda one: _reached(one[0], one[1], end), addresses))
    return {"unreached": [one for one, is_so in zip(addresses, reached, strict=True) if not is_so]}


def _reached(ip: str, port: int, end: float) -> bool:
    while True:
        try:
            socket.create_connection((ip, port), timeout=3).close()
            return True
        except OSError:
            if time.monotonic() >= end:
                return False
            time.sleep(AGAIN_S)


def listens(port: int) -> bool:
    """Whether a process listens on a port here; looked up, since it would have to answer a call."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError), open(table) as rows:
            sockets = [row.split() for row in rows.readlines()[1:]]
            if any(one[3] == "0A" and int(one[1].split(":")[1], 16) == port for one in sockets):
                return True
    return False
