"""A process's log, of which only the newest part is kept.

The process holds its log open and appends to it, so the file stays. Once it is too long, its text
moves to a piece beside it, named by the place of its first byte in all that was ever written.
Offsets count from there, so they mean the same before a cut and after it.
"""

import contextlib
import os
import time
from pathlib import Path
from typing import NamedTuple

# The log and the pieces that are kept.
PARTS = 4
TRIES = 50


class Part(NamedTuple):
    """A part of the text: where it begins, its file, and how long it is."""

    begin: int
    path: Path
    size: int


class LogFile:
    """The log at a path, with the pieces that were cut from it."""

    def __init__(self, path: Path):
        self._path = path
        self._folder = path.with_suffix(".older")
        # A whole copy of the log's text, until that is gone from the log.
        self._copy = self._folder / "copy"

    def end(self) -> int:
        """Where the next byte will be; 0 if there is no log yet."""
        try:
            last = self._parts()[-1]
        except OSError:
            return 0
        return last.begin + last.size

    def read(self, offset: int, most: int) -> tuple[int, bytes]:
        """Where the text from an offset on begins, and the text; a negative one is from the end."""
        for _ in range(TRIES):
            parts = self._parts()
            try:
                found = _read(parts, offset, most)
            except FileNotFoundError:  # the oldest piece has gone
                continue
            if self._parts()[-1].begin == parts[-1].begin:
                return found
            time.sleep(0.01)  # it was just cut
        return offset, b""

    def cut(self, most: int) -> None:
        """Moves the text to a piece if the log takes more than its share of so many bytes."""
        with open(self._path, "r+b", buffering=0) as log:
            if log.seek(0, os.SEEK_END) < max(1, most // PARTS):
                return
            log.seek(0)
            self._folder.mkdir(exist_ok=True)
            self._finish()
            begin = self._parts()[-1].begin
            try:
                with open(self._copy, "wb") as copy:
                    while data := log.read(1 << 20):
                        copy.write(data)
                        copy.flush()
                    # At once: what is written between that last look and this is lost.
                    log.truncate(0)
            except OSError:  # a full disk
                self._copy.unlink(missing_ok=True)
                raise
        os.replace(self._copy, self._piece(begin))
        for old in self._parts()[:-PARTS]:
            old.path.unlink()

    def _finish(self) -> None:
        """Ends a cut during which the keeper was killed."""
        for part in self._parts():
            if part.path == self._copy:
                os.replace(self._copy, self._piece(part.begin))
        self._copy.unlink(missing_ok=True)

    def _parts(self) -> list[Part]:
        """The pieces, then the log itself."""
        parts, copied = [], -1
        with contextlib.suppress(FileNotFoundError), os.scandir(self._folder) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    if entry.name == self._copy.name:
                        copied = entry.stat().st_size
                    elif entry.name.removesuffix(".log").isdigit():
                        begin = int(entry.name.removesuffix(".log"))
                        parts.append(Part(begin, Path(entry.path), entry.stat().st_size))
        parts.sort()
        begin = parts[-1].begin + parts[-1].size if parts else 0
        size = self._path.stat().st_size
        if size < copied:  # the text is in the copy and no longer in the log
            parts.append(Part(begin, self._copy, copied))
            begin += copied
        return [*parts, Part(begin, self._path, size)]

    def _piece(self, begin: int) -> Path:
        return self._folder / f"{begin:015d}.log"


def _read(parts: list[Part], offset: int, most: int) -> tuple[int, bytes]:
    end = parts[-1].begin + parts[-1].size
    begin = max(parts[0].begin, end + offset) if offset < 0 else min(offset, end)
    begin = max(begin, parts[0].begin)
    data = b""
    for part in parts:
        there = begin + len(data) - part.begin
        if 0 <= there < part.size and len(data) < most:
            with open(part.path, "rb") as file:
                file.seek(there)
                data += file.read(min(most - len(data), part.size - there))
    return begin, data
