"""Free ports of this machine."""

import contextlib
import random
import socket
from pathlib import Path

FIRST, LAST = 12_000, 32_000  # of those tried
EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")

# Which of how many parts of them this process tries: nothing is at a port while its program starts
# anew, so processes that start programs side by side take from parts of their own.
share = (0, 1)


def free_ports(count: int) -> list[int]:
    """So many different ports at which nobody listens.

    Programs take seconds until they listen at theirs. So these are none that the system hands out
    by itself in the meantime.
    """
    all_of_them = _tried()
    tried = random.SystemRandom().sample(all_of_them, min(1000, len(all_of_them)))
    probes: list[socket.socket] = []
    for port in tried:
        with contextlib.suppress(OSError):
            probes.append(socket.create_server(("localhost", port)))
        if len(probes) == count:
            break
    assert len(probes) == count
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def free_port() -> int:
    """A port at which nobody listens."""
    return free_ports(1)[0]


def _tried() -> range:
    """The ports that are tried, or this share of them."""
    end = int(EPHEMERAL.read_text().split()[0])
    end = end if end > FIRST + 1000 else LAST  # where it hands out nearly all, there is no choice
    return range(FIRST, end)[share[0] :: share[1]]
