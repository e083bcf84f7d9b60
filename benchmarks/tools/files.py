"""The files of a benchmark, each replaced as a whole, so that a full disk costs no earlier one."""

import tempfile
from pathlib import Path
from typing import Any

from trainer.reporting import curve
from trainer.storage.records import write_whole
from user_error import UserError


def folder(results: str) -> Path:
    """The folder of ``--results``, which is there from now on and takes files."""
    try:
        Path(results).mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=results).close()
    except OSError as error:
        raise UserError(f"--results={results}: cannot be written ({error.strerror}).") from None
    return Path(results)


def write(path: Path, content: str | bytes) -> None:
    """Writes a file; where it cannot be written, what was there stays."""
    try:
        write_whole(path, content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise UserError(
            f"{path} cannot be written ({error.strerror or error}); make room, or name another "
            "folder with --results."
        ) from None


def draw(path: Path, figure: Any) -> None:
    """Writes a figure as a PNG."""
    write(path, curve.png(figure))
