"""Free ports of this machine."""

import socket


def free_ports(count: int) -> list[int]:
    """So many different ports at which nobody listens."""
    probes = [socket.create_server(("localhost", 0)) for _ in range(count)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def free_port() -> int:
    """A port at which nobody listens."""
    return free_ports(1)[0]
