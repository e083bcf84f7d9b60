"""The wire format of calls: names, limits, and arrays in small pieces."""

import struct
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

# All calls. Actors' hello, beat and bye are letters.
HELLO = "/impala.Learner/Hello"  # nothing → the learner's announcement
TELL = "/impala.Learner/Tell"  # a letter → the version of the weights
PUT = "/impala.Learner/Put"  # an opening, then pieces of a block → the version of the weights
WEIGHTS = "/impala.Learner/Weights"  # nothing → an opening, then pieces of the weights

TOKEN = "token-bin"  # goes with every call
PROCESS = "process"  # of the learner: with its hello, and then with every call that is meant for it

PIECE = 1 << 20
LONGEST_LETTER = 1 << 16
LONGEST_HEADER = 1 << 10
LARGEST_MESSAGE = PIECE + LONGEST_HEADER

VERSION = struct.Struct("<q")
SIZE = struct.Struct("<Q")

LIMITS = [
    ("grpc.max_receive_message_length", LARGEST_MESSAGE),
    # A small compressed message may be huge decompressed; ours are never compressed.
    ("grpc.per_message_decompression", 0),
    ("grpc.max_metadata_size", 1 << 12),
    ("grpc.absolute_max_metadata_size", 1 << 13),
]


class Malformed(Exception):
    """A message is malformed; the text says how."""


class CutOff(Malformed):
    """A call ended before its messages were complete, as when an actor is killed."""

    def __str__(self) -> str:
        return f"{super().__str__()}, or its sender was stopped"


class Opening(NamedTuple):
    """Comes before the pieces of an array: its size, and what goes with it."""

    size: int
    more: bytes

    def pack(self) -> bytes:
        """As bytes."""
        return SIZE.pack(self.size) + self.more

    @classmethod
    def unpack(cls, packed: bytes) -> "Opening":
        """From bytes."""
        if not SIZE.size <= len(packed) <= SIZE.size + LONGEST_HEADER:
            raise Malformed("it has no valid opening")
        return cls(SIZE.unpack_from(packed)[0], packed[SIZE.size :])


def cut(array: np.ndarray) -> Iterator[bytes]:
    """The bytes of a uint8 array in pieces; each is copied only on its turn."""
    for start in range(0, array.nbytes, PIECE):
        yield array[start : start + PIECE].tobytes()


def join(pieces: Iterator[bytes], size: int) -> np.ndarray:
    """Joins the pieces of an array of ``size`` bytes."""
    whole = np.empty(size, np.uint8)
    filled = 0
    while filled < size:
        piece = next(pieces, b"")
        end = filled + len(piece)
        if not piece or end > size:
            raise CutOff(f"its pieces do not add up to {size:,} bytes")
        whole[filled:end] = np.frombuffer(piece, np.uint8)
        filled = end
    return whole
