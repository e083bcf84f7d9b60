"""What may stand in each column of the CSV: a text → a value, or ``BadValue`` saying why not."""

import ipaddress
import os.path
import re
from collections.abc import Callable

JOBS = ("learner", "actor")
_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,62}\$?")
_DEVICE = re.compile(r"\d{1,4}|(GPU|MIG)-[A-Za-z0-9/-]{1,80}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ZONE = re.compile(r"[A-Za-z0-9_.-]{1,15}")
_EVERYBODY = ipaddress.ip_address("255.255.255.255")


class BadValue(ValueError):
    """What was given and what was wanted."""


def job(given: str) -> str:
    """``learner`` or ``actor``."""
    if given not in JOBS:
        raise BadValue(f"{given!r} is no job; it must be 'learner' or 'actor'.")
    return given


def address(given: str) -> str:
    """An IP address or the name of a host."""
    try:
        ip = ipaddress.ip_address(given)
    except ValueError:
        pass
    else:
        if ip.is_unspecified or ip.is_multicast or ip == _EVERYBODY:
            raise BadValue(f"{given!r} is not the address of one host.")
        # What stands behind % is the name of an interface; ipaddress takes anything there.
        zone = getattr(ip, "scope_id", None)
        if zone and not _ZONE.fullmatch(zone):
            raise BadValue(f"{given!r} is neither an IP address nor the name of a host.")
        return str(ip)
    labels = given.removesuffix(".").split(".")
    # A name whose last part is a number would be taken for an IPv4 address.
    if len(given) > 253 or labels[-1].isdigit() or not all(map(_LABEL.fullmatch, labels)):
        raise BadValue(f"{given!r} is neither an IP address nor the name of a host.")
    return given


def host_of(ip: str) -> str:
    """One name for each of the addresses of this machine's loopback, any other as it is."""
    try:
        return "localhost" if ipaddress.ip_address(ip).is_loopback else ip
    except ValueError:
        return ip.lower().removesuffix(".")


def number(least: int, most: int) -> Callable[[str], int]:
    """A parser of whole numbers from ``least`` to ``most``."""

    def parse(given: str) -> int:
        # Not int() alone: it also takes underscores, signs and digits of other scripts.
        if not re.fullmatch(r"[0-9]{1,9}", given) or not least <= int(given) <= most:
            raise BadValue(f"{given!r} is not a whole number from {least} to {most}.")
        return int(given)

    return parse


port = number(1, 65535)


def user(given: str) -> str:
    """A name that one can log in with."""
    if not _USER.fullmatch(given):
        # Not shown: where a row has shifted by one, it is the password.
        raise BadValue("cannot be the name of a user: letters, digits, '_', '.' and '-' are.")
    return given


def text(given: str) -> str:
    """Any text that does not look like an option and has no control characters."""
    if given.startswith("-") or not given.isprintable():
        raise BadValue(f"{given!r} starts with '-' or has characters that cannot be printed.")
    return given


def folder(given: str) -> str:
    """A folder of a host, below the user's home unless absolute; ~/ says the same."""
    if given.startswith("~"):
        if given.strip("/") != "~" and not given.startswith("~/"):
            raise BadValue(f"{given!r} is in another user's home: give its absolute path.")
        given = given[1:].strip("/") or "."
    return text(given)


def program(given: str) -> str:
    """A program of a host: in its PATH, below the project's folder, or absolute."""
    if given.startswith("~"):
        raise BadValue(f"{given!r}: ~ is not known there, give the absolute path.")
    return text(given)


def key(given: str) -> str:
    """A file of this machine; ~ is the user's home."""
    return os.path.expanduser(text(given))


def password(given: str) -> str:
    """Any text of one line; what is wrong is told without showing it."""
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in given):
        raise BadValue("has control characters in it.")
    return given


def devices(given: str) -> str:
    """GPUs as CUDA counts or names them; -1: none."""
    if given != "-1" and not all(map(_DEVICE.fullmatch, given.split(","))):
        raise BadValue(f'{given!r} is no list of GPUs such as 0 or "0,1", and not -1 for none.')
    return given


def environment(given: str) -> tuple[tuple[str, str], ...]:
    """``NAME=value;NAME=value`` as pairs."""
    pairs: dict[str, str] = {}
    for number, part in enumerate(filter(None, given.split(";")), start=1):
        name, equals, value = part.partition("=")
        name = name.strip()
        # What stands there is not shown: it may be a token of the user's.
        if not equals or not _NAME.fullmatch(name) or not value.isprintable():
            raise BadValue(f"part {number} of those between semicolons is not NAME=value.")
        if name == "CUDA_VISIBLE_DEVICES":
            raise BadValue(f"{name} has a column of its own, cuda_visible_devices.")
        if name in pairs:
            raise BadValue(f"{name} is given twice.")
        pairs[name] = value
    return tuple(pairs.items())
