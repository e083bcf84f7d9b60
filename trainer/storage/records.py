"""Files that a run appends to as it goes, and reading its metrics back.

A disk that is full, or a folder that has gone, costs what could not be written and nothing
else: what was written before stays whole, and the next piece is tried again.
"""

import contextlib
import json
import math
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np

METRICS = "metrics.jsonl"


class GrowingFile:
    """A file that grows by whole pieces; ``error`` says why the last one could not be written."""

    def __init__(self, path: Path):
        self.path = path
        self.error: OSError | None = None
        self._lock = threading.Lock()

    def append(self, piece: bytes) -> None:
        """Writes a piece at the end, or nothing of it."""
        with self._lock:
            try:
                self._append(piece)
                self.error = None
            except OSError as error:
                self.error = error

    def append_line(self, text: str) -> None:
        """Writes a line of text."""
        self.append(text.encode("utf-8", "replace") + b"\n")

    def _append(self, piece: bytes) -> None:
        # Opened anew each time: the folder may have been moved, or its disk mounted again.
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            size = os.fstat(file).st_size
            try:
                _write_all(file, self._joint(file, size) + piece)
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(file, size)
                raise
        finally:
            os.close(file)

    def _joint(self, file: int, size: int) -> bytes:
        """What must stand between the file's end and the next piece."""
        return b""


class LinesFile(GrowingFile):
    """A file of lines; one that a crash cut short is ended before the next."""

    def _joint(self, file: int, size: int) -> bytes:
        return b"\n" if size and os.pread(file, 1, size - 1) != b"\n" else b""


def to_line(figures: dict[str, Any]) -> str:
    """Figures as a JSON object in one line; what is not finite becomes null."""
    return json.dumps({name: plain(value) for name, value in figures.items()}, allow_nan=False)


def plain(value: Any) -> Any:
    """A value as JSON knows it."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    value = np.asarray(value).item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The reports in a metrics file, or in a run's folder, in the order of training.

    Broken lines are passed over. Where the run was resumed from a checkpoint, the reports
    that it undid are left out: those of at least as many frames as the first one after it.
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
        while rows and rows[-1]["environment_frames"] >= row["environment_frames"]:
            rows.pop()
        rows.append(row)
    return rows


def write_whole(path: Path, content: bytes) -> None:
    """Replaces a file at once, so that nobody ever reads half of it; may raise OSError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def _write_all(file: int, data: bytes) -> None:
    # A disk that fills up takes a part first and refuses the rest.
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
