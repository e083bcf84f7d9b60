"""Addresses as flags give them."""

import ipaddress
import re
from collections.abc import Sequence

from user_error import UserError


def address(given: str, flag: str = "--learner_host") -> tuple[str, int]:
    """Host and port of an address that a flag gives; an address of IPv6 is in brackets."""
    host, _, port = given.rpartition(":")
    if not _is_host(host) or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UserError(f"{flag}={given}: expected host:port, for example localhost:8001.")
    host = host.strip("[]")
    return f"[{host}]" if ":" in host else host, int(port)


def of_agents(given: str, names: Sequence[str]) -> dict[str, str]:
    """The address of each agent's learner, from ``NAME=host:port,NAME=host:port``."""
    pairs = [part.strip().partition("=") for part in given.split(",")]
    found = {name: text for name, _, text in pairs}
    if sorted(name for name, _, _ in pairs) != sorted(names):
        shown = ",".join(f"{name}=localhost:{8001 + i}" for i, name in enumerate(names))
        raise UserError(
            f"--learner_host={given}: expected the address of each agent's learner once, such as "
            f"{shown}."
        )
    for text in found.values():
        address(text)
    return found


def _is_host(host: str) -> bool:
    """Whether it is a name that can be looked up, or an address."""
    try:
        if ":" in host:
            return bool(ipaddress.IPv6Address(host.strip("[]")))
        return bool(re.fullmatch(r"[^\s/]+", host) and host.encode("idna"))
    except ValueError:
        return False
