"""LZ4 for the benchmark of transport: beside it, Zstandard's figures can be judged."""

from typing import Any

import numpy as np

from transport.layout import Misfit
from user_error import UserError


class Lz4:
    """One block, quickest setting; a ``transport.compression.Codec``."""

    name = "lz4"

    def __init__(self) -> None:
        try:
            import lz4.block
        except ImportError:
            raise UserError(
                "--compressions=lz4: the package lz4 is not installed; "
                "`.venv/bin/python -m pip install lz4` adds it for this benchmark."
            ) from None
        self._library: Any = lz4.block

    def compress(self, packed: np.ndarray) -> bytes:
        """Without a header."""
        return bytes(self._library.compress(packed, store_size=False))

    def decompress(self, squeezed: np.ndarray, size: int) -> np.ndarray:
        """The bytes of a block."""
        whole = self._library.decompress(squeezed, uncompressed_size=size)
        if len(whole) != size:
            raise Misfit(f"a block of {len(whole):,} bytes, not {size:,}")
        return np.frombuffer(whole, np.uint8)
