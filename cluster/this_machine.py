"""What a plan needs to know about the machine that it is made on."""

import getpass
import os
import socket
import sys
from pathlib import Path

from cluster.inventory.columns import host_of
from cluster.model import Here
from trainer.machine.launching import PROJECT


def here() -> Here:
    """This machine, as the plan needs to know it."""
    return Here(
        folder=str(Path.cwd()),
        python=sys.executable,
        script=str(PROJECT / "experiment.py"),
        username=_own_name(),
        known_hosts=os.path.expanduser("~/.ssh/known_hosts"),
        is_own_address=_is_own_address,
        ssh_agent=os.environ.get("SSH_AUTH_SOCK", ""),
    )


def _own_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a user without a name there
        return str(os.getuid())


def _is_own_address(ip: str) -> bool:
    """Whether an address is one of this machine's: only then is it the source on the way there.

    Nothing is sent. Binding to it says less: with ip_nonlocal_bind=1 that works with any address.
    """
    if host_of(ip) in ("localhost", socket.gethostname().lower()):
        return True
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    try:
        # inet_pton refuses names, which would be looked up, and those of interfaces as well.
        socket.inet_pton(family, ip.partition("%")[0])
        address = socket.getaddrinfo(ip, 9, family, socket.SOCK_DGRAM)[0][4]
        # A kernel without IPv6 makes no such socket.
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(address)
            return probe.getsockname()[0].partition("%")[0] == ip.partition("%")[0]
    except OSError:
        return False
