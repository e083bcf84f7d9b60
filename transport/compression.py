"""Layouts whose bytes are compressed on their way, for links that are slower than processors.

A block that compressing does not make smaller is sent as it is. Both ends tell by its size.
"""

from typing import Any, Protocol

import numpy as np

from transport.layout import Layout, Misfit
from user_error import UserError


class Codec(Protocol):
    """Makes bytes smaller, in any thread."""

    name: str

    def compress(self, packed: np.ndarray) -> bytes: ...
    def decompress(self, squeezed: np.ndarray, size: int) -> np.ndarray:
        """Exactly ``size`` bytes, uint8; ``Misfit`` where they are more, fewer or malformed."""


class Zstd:
    """Zstandard at its quick end."""

    name = "zstd"
    LEVEL = 1

    def __init__(self) -> None:
        try:
            import zstandard
        except ImportError:
            raise UserError(
                "--compression=zstd: the package zstandard is not installed. `bin/setup` adds it."
            ) from None
        self._library: Any = zstandard

    def compress(self, packed: np.ndarray) -> bytes:
        """As one frame."""
        return bytes(self._library.ZstdCompressor(level=self.LEVEL).compress(packed))

    def decompress(self, squeezed: np.ndarray, size: int) -> np.ndarray:
        """The bytes of a frame, which takes no more memory than ``size``, whatever it says."""
        whole = np.empty(size, np.uint8)
        room: Any = memoryview(whole)  # type: ignore[arg-type]
        filled = 0
        try:
            with self._library.ZstdDecompressor().stream_reader(squeezed) as reader:
                while filled < size and (count := reader.readinto(room[filled:])):
                    filled += count
                if filled < size or reader.read(1):
                    raise Misfit(f"a compressed block is not one of {size:,} bytes")
        except self._library.ZstdError as error:
            raise Misfit(f"a compressed block is malformed: {error}") from None
        return whole


class Compressed(Layout):
    """A layout whose nests are sent compressed."""

    def __init__(self, nest: Any, codec: Codec, most: int):
        """``most`` is the largest number of unrolls that is unpacked."""
        super().__init__(nest)
        self._codec = codec
        self.most: int = most

    def pack(self, nest: Any, count: int = 1) -> np.ndarray:
        """The arrays' bytes, compressed where that makes them fewer."""
        packed = super().pack(nest, count)
        squeezed = np.frombuffer(self._codec.compress(packed), np.uint8)
        return squeezed if squeezed.nbytes < packed.nbytes else packed

    def unpack(self, packed: np.ndarray, count: int = 1) -> Any:
        """The nest, its arrays being views of the bytes."""
        if count > self.most:
            raise Misfit(
                f"{count} unrolls, where {self.most} are allowed. Give the actor a lower "
                "--envs_per_actor, or its learner a higher one"
            )
        if packed.nbytes != self.size(count):
            packed = self._codec.decompress(packed, self.size(count))
        return super().unpack(packed, count)

    def digest(self) -> str:
        """A short name, different for every layout and codec."""
        return f"{super().digest()}-{self._codec.name}"
