"""Free ports of this machine."""

import contextlib
import random
import socket
from pathlib import Path

FIRST, LAST = 12_000, 32_000  # of those tried
EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_ports(count: int) -> list[int]:
    """So many different ports at which nobody listens.

    Programs take seconds until they listen at theirs. So these are none that the system hands out
    by itself in the meantime.
    """
    end = int(EPHEMERAL.read_text().split()[0])
    end = end if end > FIRST + 1000 else LAST  # where it hands out nearly all, there is no choice
    tried = random.SystemRandom().sample(range(FIRST, end), 1000)
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
