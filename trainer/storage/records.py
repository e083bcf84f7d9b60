"""Append-only files of a run, and reading its metrics back.

If the disk is full or the folder is gone, only the piece being written is lost: earlier content
stays intact, and the next piece is attempted as usual.
"""

import contextlib
import json
import math
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np

from trainer.storage.npz import replacing

METRICS = "metrics.jsonl"
SETTINGS = "settings.json"
LONGEST_ROW = 2**18  # bytes, of a report and of what a crash left after it


class GrowingFile:
    """A file that grows by whole pieces; ``error`` is set if the last one could not be written."""

    def __init__(self, path: Path):
        self.path = path
        self.error: OSError | None = None
        self._lock = threading.Lock()

    def append(self, piece: bytes) -> None:
        """Appends a piece, or nothing of it."""
        with self._lock:
            try:
                self._append(piece)
                self.error = None
            except OSError as error:
                self.error = error

    def append_line(self, text: str) -> None:
        """Appends a line of text."""
        self.append(text.encode("utf-8", "replace") + b"\n")

    def _append(self, piece: bytes) -> None:
        # Reopened each time: the folder may have been moved, or its disk mounted again.
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            size = os.fstat(file).st_size
            try:
                _write_all(file, self._separator(file, size) + piece)
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(file, size)
                raise
        finally:
            os.close(file)

    def _separator(self, file: int, size: int) -> bytes:
        """The bytes to insert before the next piece."""
        return b""


class LinesFile(GrowingFile):
    """A file of lines; a line that a crash cut short is terminated before the next."""

    def _separator(self, file: int, size: int) -> bytes:
        return b"\n" if size and os.pread(file, 1, size - 1) != b"\n" else b""


def to_line(figures: dict[str, Any]) -> str:
    """Figures as one line of JSON; numbers that are not finite become null."""
    return json.dumps(plain(figures), allow_nan=False)


def write_report(path: Path, report: dict[str, Any]) -> None:
    """Writes figures as a file of JSON, whole or not at all; makes its folder if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(plain(report), indent=2, allow_nan=False).encode() + b"\n")


def plain(value: Any) -> Any:
    """A value as JSON can hold it; numbers that are not finite become None, also within others."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    value = np.asarray(value).item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The reports in a metrics file, or in a run's folder, in the order of training.

    Broken lines are skipped. If the run was resumed from a checkpoint, the reports that the
    resume undid are left out: those with at least as many frames as the first one after it, or of
    a later time.
    """
    path = Path(path)
    if path.is_dir():
        path = path / METRICS
    if not path.exists():
        return []
    rows: list[dict[str, Any]] = []
    for text in path.read_bytes().splitlines():
        row = _parse(text)
        if row is None:
            continue
        while rows and _is_undone(rows[-1], row):
            rows.pop()
        rows.append(row)
    return rows


def _is_undone(row: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether a resume undid a report: frames and time go on from those of the checkpoint.

    A run that is faster than before passes the frames of a report before its time.
    """
    is_later = (row.get("wall_time") or 0.0) > (after.get("wall_time") or math.inf)
    return is_later or row["environment_frames"] >= after["environment_frames"]


def of_level(rows: list[dict[str, Any]], since: int) -> list[dict[str, Any]]:
    """The reports of a run that has played its level since so many frames; 0: all of them."""
    return [row for row in rows if not since or row["environment_frames"] > since]


def newest_metrics(folder: Path) -> dict[str, Any]:
    """The last report in a run's folder; empty without one. Reads only the end of the file."""
    path = folder / METRICS
    if not path.exists():
        return {}
    with open(path, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - LONGEST_ROW))
        lines = file.read().splitlines()
    return next((row for line in reversed(lines) if (row := _parse(line)) is not None), {})


def write_whole(path: Path, content: bytes) -> None:
    """Replaces a file atomically, so that nobody reads half of it; may raise OSError."""
    with replacing(path) as file:
        file.write(content)


def _write_all(file: int, data: bytes) -> None:
    # A disk that fills up first accepts a part, then refuses the rest.
    while data:
        data = data[os.write(file, data) :]


def _parse(text: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(text)
    except ValueError:
        return None
    if not isinstance(row, dict) or not isinstance(row.get("environment_frames"), int):
        return None
    return row
