"""Rectangles of RFB's encoding Tight: one colour, a few colours, or all, packed by zlib."""

import asyncio
import zlib

import numpy as np

FILL, JPEG = 8, 9
COPY, PALETTE = 0, 1  # filters
SMALLEST_PACKED = 12  # bytes; less is sent as it is


class Tight:
    """Unpacks the rectangles of a connection, whose four streams go on from one to the next."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._streams = [zlib.decompressobj() for _ in range(4)]

    async def pixels(self, width: int, height: int) -> np.ndarray:
        """The next rectangle, uint8 [height, width, 3]."""
        control = await self._byte()
        for index in range(4):
            if control >> index & 1:
                self._streams[index] = zlib.decompressobj()
        kind = control >> 4
        if kind == FILL:
            colour = np.frombuffer(await self._reader.readexactly(3), np.uint8)
            return np.broadcast_to(colour, (height, width, 3))
        if kind > FILL:
            raise EOFError("a picture as JPEG was not asked for")
        stream = self._streams[kind & 3]
        filter_ = await self._byte() if kind & 4 else COPY
        if filter_ == COPY:
            data = await self._unpacked(stream, 3 * width * height)
            return np.frombuffer(data, np.uint8).reshape(height, width, 3)
        if filter_ != PALETTE:
            raise EOFError(f"filter {filter_} of Tight is not known")
        count = await self._byte() + 1
        colours = np.frombuffer(await self._reader.readexactly(3 * count), np.uint8).reshape(-1, 3)
        row = -(-width // 8) if count == 2 else width
        data = await self._unpacked(stream, row * height)
        indices = np.frombuffer(data, np.uint8).reshape(height, row)
        if count == 2:
            indices = np.unpackbits(indices, axis=1)[:, :width]
        return colours[indices]

    async def _unpacked(self, stream: "zlib._Decompress", size: int) -> bytes:
        if size < SMALLEST_PACKED:
            return await self._reader.readexactly(size)
        data = stream.decompress(await self._reader.readexactly(await self._length()))
        if len(data) != size:
            raise EOFError("a rectangle of Tight has the wrong size")
        return data

    async def _length(self) -> int:
        """Seven bits a byte, the lowest first; the highest bit says that more follow."""
        length = 0
        for shift in (0, 7, 14):
            byte = await self._byte()
            length |= (byte if shift == 14 else byte & 127) << shift
            if byte < 128:
                break
        return length

    async def _byte(self) -> int:
        return (await self._reader.readexactly(1))[0]
