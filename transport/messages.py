"""Messages between learners and actors, whatever carries them."""

import hashlib
import json
import struct
import sys
from typing import Any, NamedTuple

import numpy as np

PROTOCOL = "1"
# In place of a count of updates: the learner has finished its training.
FINISHED = -1
# How many beats an actor sends within a timeout.
BEATS_PER_TIMEOUT = 4

HEADER = struct.Struct("<16s16sQIf")

Identity = dict[str, str]  # what must be equal at both ends, by name
# Where they are, in messages.
PLACES = ("at the learner", "at the actor")


class Lost(Exception):
    """The peer cannot be reached, or no longer knows us; the text says why."""


class Lasting(Lost):
    """It does not pass by itself: a setting or a clock has to be changed somewhere."""


class Stranger(Lost):
    """Something else answers in the peer's place; the text says how that shows."""


class Silent(Exception):
    """No answer in time; the peer may be alive and just have no room."""


class Refused(Exception):
    """The peer has other settings; the text names the difference."""


class Header(NamedTuple):
    """Goes with every block."""

    fingerprint: bytes  # of the sender's identity
    actor: bytes
    number: int  # counts an actor's blocks, so that none is used twice
    unrolls: int  # in the block
    waited: float  # fraction of its time that the actor waited for the learner

    def pack(self) -> np.ndarray:
        """As bytes, uint8."""
        return np.frombuffer(HEADER.pack(*self), np.uint8)

    @classmethod
    def unpack(cls, packed: np.ndarray) -> "Header | None":
        """From bytes; None where they are no header."""
        return cls(*HEADER.unpack(packed.tobytes())) if packed.nbytes == HEADER.size else None


def identity(own: dict[str, Any], layout: str) -> Identity:
    """The identity of an end that speaks this protocol; ``layout`` is its blocks' digest."""
    protocol = {"transport protocol": f"{PROTOCOL}, {sys.byteorder}-endian"}
    return protocol | {name: str(value) for name, value in own.items()} | {"block layout": layout}


def fingerprint(one: Identity) -> bytes:
    """16 bytes that differ where identities do."""
    return hashlib.blake2b(encode(one), digest_size=16).digest()


def differences(learner: Identity, actor: Identity, places: tuple[str, str] = PLACES) -> str:
    """How two identities at these places differ, in words; empty where they are equal."""
    names = [name for name in learner | actor if learner.get(name) != actor.get(name)]
    if len(names) > 1 and "block layout" in names:
        names.remove("block layout")  # it follows from the others
    return "; ".join(
        f"{name} is {learner.get(name, 'unknown')} {places[0]} "
        f"and {actor.get(name, 'unknown')} {places[1]}"
        for name in names
    )


def too_many(unrolls: int, most: Any, largest: Any) -> str:
    """What is wrong with a block of so many unrolls; empty where a learner takes it.

    It has room for ``most`` of an actor, and unpacks no block of more than ``largest``; any if
    they are None.
    """
    if isinstance(most, int) and unrolls > most:
        why, other = f"there is room for {most} of an actor", "more --replay_steps"
    elif isinstance(largest, int) and unrolls > largest:
        why, other = f"{largest} are allowed", "a higher one"
    else:
        return ""
    return (
        f"its blocks have {unrolls} unrolls, and {why}. Give the actor a lower --envs_per_actor, "
        f"or the learner {other}"
    )


def encode(value: Any) -> bytes:
    """JSON as bytes."""
    return json.dumps(value, sort_keys=True).encode()


def decode(packed: Any) -> dict[str, Any]:
    """A JSON object from bytes; empty where they are none."""
    try:
        value = json.loads(bytes(packed))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
