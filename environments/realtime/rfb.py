"""A client of RFB, the protocol of VNC: pictures come in, keys and pointer go out.

Only what our remotes need: pixels of 32 bits, as they are or packed by zlib (Tight without
JPEG), incremental updates, the password of VNC or none.
"""

import asyncio
import struct
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from environments.realtime import keys
from environments.realtime import password as passwords
from environments.realtime.tight import Tight

FIRST_WITH_LISTS = b"RFB 003.007\n"  # of the logins to choose from; older ones name one
NONE, VNC_AUTH = 1, 2
RAW, COPY, TIGHT = 0, 1, 7
LARGEST_DESKTOP = 4096  # pixels of a side
_TO_SERVER = {"format": 0, "encodings": 2, "request": 3, "key": 4, "pointer": 5}
# 32 bits, 24 of them used, the bytes in the order red, green, blue.
_PIXEL_FORMAT = struct.pack(">BBBBHHHBBB3x", 32, 24, 0, 1, 255, 255, 255, 0, 8, 16)


class Refused(Exception):
    """The server does not let this client in; the message says why."""


class Rectangle(NamedTuple):
    """New pixels of a part of the picture, or where to copy them from."""

    x: int
    y: int
    width: int
    height: int
    pixels: np.ndarray | tuple[int, int]  # uint8 [height, width, 3], or x and y


class RfbClient:
    """One connection; ``run`` reads updates until it is lost."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, packed: bool
    ) -> None:
        """``packed`` asks for pictures packed by zlib: networks need it, one machine does not."""
        self._reader, self._writer = reader, writer
        self._packed = packed
        self._tight = Tight(reader)
        self._down: dict[str, int] = {}  # keys, and the numbers by which they were pressed

    async def greet(self, password: str) -> None:
        """Shakes hands; ``width``, ``height`` and the desktop's ``name`` are known then.

        A server that takes nobody at the moment is a ``ConnectionError``.
        """
        read, write = self._reader.readexactly, self._writer.write
        version = await read(12)
        if not version.startswith(b"RFB 003."):
            raise Refused("it does not speak RFB")
        write(b"RFB 003.008\n")
        if version < FIRST_WITH_LISTS:
            if int.from_bytes(await read(4)) == 0:
                raise ConnectionError(await self._reason())
            raise Refused(f"it speaks {version[:11].decode('latin-1')}, expected RFB 003.007 on")
        kinds = await read((await read(1))[0])
        if not kinds:
            raise ConnectionError(await self._reason())
        if VNC_AUTH in kinds:
            write(bytes([VNC_AUTH]))
            write(passwords.answer(password, await read(16)))
        elif NONE in kinds:
            write(bytes([NONE]))
        else:
            raise Refused("it asks for another kind of login than a password or none")
        if int.from_bytes(await read(4)):
            raise Refused(f"wrong password ({await self._reason()})")
        write(b"\1")  # others may look, too
        self.width, self.height = struct.unpack(">HH", await read(4))
        await read(16)
        self.name = (await read(int.from_bytes(await read(4)))).decode("utf-8", "replace")
        write(struct.pack(">B3x", _TO_SERVER["format"]) + _PIXEL_FORMAT)
        encodings = [TIGHT, COPY, RAW] if self._packed else [COPY, RAW]
        head = struct.pack(">BxH", _TO_SERVER["encodings"], len(encodings))
        write(head + struct.pack(f">{len(encodings)}i", *encodings))

    async def _reason(self) -> str:
        """Why the server says no."""
        length = int.from_bytes(await self._reader.readexactly(4))
        return (await self._reader.readexactly(length)).decode("latin-1")

    async def run(self, updated: Callable[[list[Rectangle]], None]) -> None:
        """Calls ``updated`` with each update; raises ``EOFError`` or ``OSError`` at the end."""
        self._request(incremental=False)
        while True:
            kind = (await self._reader.readexactly(1))[0]
            if kind == 0:
                _, count = struct.unpack(">BH", await self._reader.readexactly(3))
                rectangles = [await self._rectangle() for _ in range(count)]
                # The next picture is on its way while this one is looked at.
                self._request(incremental=True)
                updated(rectangles)
            elif kind == 1:  # colours of a palette
                _, _, count = struct.unpack(">BHH", await self._reader.readexactly(5))
                await self._reader.readexactly(6 * count)
            elif kind == 3:  # a text for the clipboard
                _, length = struct.unpack(">3sI", await self._reader.readexactly(7))
                await self._reader.readexactly(length)
            elif kind != 2:  # a bell
                raise EOFError(f"message {kind} of RFB is not known")

    def key(self, name: str, down: bool) -> None:
        """Presses or releases a key."""
        if down:
            self._down[name] = keys.keysym(name, "shift" in self._down)
        # Servers know a key by the number with which it was pressed.
        number = self._down[name] if down else self._down.pop(name, keys.KEYSYMS[name])
        self._writer.write(struct.pack(">BBxxI", _TO_SERVER["key"], down, number))

    def pointer(self, x: int, y: int, pressed: bool) -> None:
        """Moves the pointer, with its first button pressed or not."""
        self._writer.write(struct.pack(">BBHH", _TO_SERVER["pointer"], pressed, x, y))

    def close(self) -> None:
        """Ends the connection."""
        self._writer.close()

    def _request(self, incremental: bool) -> None:
        size = (0, 0, self.width, self.height)
        self._writer.write(struct.pack(">BBHHHH", _TO_SERVER["request"], incremental, *size))

    async def _rectangle(self) -> Rectangle:
        head = await self._reader.readexactly(12)
        x, y, width, height, encoding = struct.unpack(">HHHHi", head)
        self._check_inside(x, y, width, height)
        pixels: np.ndarray | tuple[int, int]
        if encoding == RAW:
            data = await self._reader.readexactly(4 * width * height)
            pixels = np.frombuffer(data, np.uint8).reshape(height, width, 4)[:, :, :3]
        elif encoding == COPY:
            left, top = struct.unpack(">HH", await self._reader.readexactly(4))
            self._check_inside(left, top, width, height)
            pixels = (left, top)
        elif encoding == TIGHT:
            pixels = await self._tight.pixels(width, height)
        else:
            raise EOFError(f"encoding {encoding} of RFB was not asked for")
        return Rectangle(x, y, width, height, pixels)

    def _check_inside(self, x: int, y: int, width: int, height: int) -> None:
        if x + width > self.width or y + height > self.height:
            raise EOFError("a rectangle of RFB is not within the picture")


def touches(rectangles: list[Rectangle], height: int) -> bool:
    """Whether an update draws anything in the topmost rows, so many of them."""
    return any(one.y < height for one in rectangles)


def apply(rectangles: list[Rectangle], picture: np.ndarray) -> None:
    """Draws an update into a picture, uint8 [height, width, 3]."""
    for x, y, width, height, source in rectangles:
        pixels = source
        if isinstance(source, tuple):
            left, top = source
            pixels = picture[top : top + height, left : left + width].copy()
        picture[y : y + height, x : x + width] = pixels
