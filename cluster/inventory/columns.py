"""Parsers of the CSV's columns: text → value, or ``BadValue`` that says why not."""

import ipaddress
import os.path
import re
from collections.abc import Callable

from trainer.settings import seating

JOBS = ("learner", "actor", "remote")
_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
# Domains have names such as ann@example.org and EXAMPLE\ann, schools such as 20231234.
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@\\-]{0,254}\$?")
_DEVICE = re.compile(r"\d{1,4}|(GPU|MIG)-[A-Za-z0-9/-]{1,80}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ZONE = re.compile(r"[A-Za-z0-9_.-]{1,15}")
_EVERYBODY = ipaddress.ip_address("255.255.255.255")


class BadValue(ValueError):
    """A bad value; the text goes on from it: what is wrong, and what was expected.

    It does not show the value: in a row whose fields are shifted, that may be the password.
    """


def job(given: str) -> str:
    """``learner``, ``actor`` or ``remote``."""
    if given not in JOBS:
        raise BadValue("is not a job; expected 'learner', 'actor' or 'remote'.")
    return given


def address(given: str) -> str:
    """An IP address or the name of a host."""
    try:
        ip = ipaddress.ip_address(given)
    except ValueError:
        pass
    else:
        if ip.is_unspecified or ip.is_multicast or ip == _EVERYBODY:
            raise BadValue("is not the address of one host.")
        # After the % comes the name of an interface; ipaddress accepts anything there.
        zone = getattr(ip, "scope_id", None)
        if zone and not _ZONE.fullmatch(zone):
            raise BadValue("is neither an IP address nor the name of a host.")
        return str(ip)
    labels = given.removesuffix(".").split(".")
    # A name whose last part is a number would be mistaken for an IPv4 address.
    if len(given) > 253 or labels[-1].isdigit() or not all(map(_LABEL.fullmatch, labels)):
        raise BadValue("is neither an IP address nor the name of a host.")
    return given


def host_of(ip: str) -> str:
    """``localhost`` for any loopback address, other addresses as they are."""
    try:
        return "localhost" if ipaddress.ip_address(ip).is_loopback else ip
    except ValueError:
        return ip.lower().removesuffix(".")


def number(least: int, most: int) -> Callable[[str], int]:
    """A parser of whole numbers from ``least`` to ``most``."""

    def parse(given: str) -> int:
        # Not int() alone: it also accepts underscores, signs and digits of other scripts.
        if not re.fullmatch(r"[0-9]{1,9}", given) or not least <= int(given) <= most:
            raise BadValue(f"is not a whole number from {least} to {most}.")
        return int(given)

    return parse


port = number(1, 65535)


def user(given: str) -> str:
    """The name of a user to log in as."""
    if not _USER.fullmatch(given):
        raise BadValue(
            "is not a user name; expected a letter, digit or '_', then such and '.', '-', '@' or "
            "a backslash, at most 255."
        )
    return given


def text(given: str) -> str:
    """Any text that does not look like an option and has no control characters."""
    if given.startswith("-") or not given.isprintable():
        raise BadValue("starts with '-' or has characters that cannot be printed.")
    return given


def folder(given: str) -> str:
    """A folder of a host, below the user's home unless absolute; with or without ~/."""
    if given.startswith("~"):
        if given.strip("/") != "~" and not given.startswith("~/"):
            raise BadValue("is in another user's home: give its absolute path.")
        given = given[1:].strip("/") or "."
    return text(given)


def program(given: str) -> str:
    """A program of a host: in its PATH, below the project's folder, or absolute."""
    if given.startswith("~"):
        raise BadValue("starts with '~', which is not expanded there; give the absolute path.")
    return text(given)


def key(given: str) -> str:
    """A file of this machine, also for later commands elsewhere; ~ is the user's home."""
    return os.path.abspath(os.path.expanduser(text(given)))


def password(given: str) -> str:
    """Any text of one line."""
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in given):
        raise BadValue("contains control characters.")
    return given


def agent(given: str) -> str:
    """The name of one of several agents."""
    if not seating.is_name(given):
        raise BadValue("is not a name; expected letters, digits, '_', '-' and '.'.")
    return given


def devices(given: str) -> str:
    """GPUs as CUDA counts or names them; -1: none."""
    if given != "-1" and not all(map(_DEVICE.fullmatch, given.split(","))):
        raise BadValue('is not a list of GPUs; expected such as 0 or "0,1", or -1 for none.')
    return given


def environment(given: str) -> tuple[tuple[str, str], ...]:
    """``NAME=value;NAME=value`` as pairs."""
    pairs: dict[str, str] = {}
    for number, part in enumerate(filter(None, given.split(";")), start=1):
        name, equals, value = part.partition("=")
        name = name.strip()
        if not equals or not _NAME.fullmatch(name) or not value.isprintable():
            raise BadValue(f"part {number}, counted by semicolons, is not NAME=value.")
        if name == "CUDA_VISIBLE_DEVICES":
            raise BadValue(f"{name} has its own column, cuda_visible_devices.")
        if name in pairs:
            raise BadValue(f"{name} is given twice.")
        pairs[name] = value
    return tuple(pairs.items())
