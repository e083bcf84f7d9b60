"""What the studies write: OUT.json, OUT.csv and OUT.png, each of them whole."""

import csv
import io
import json
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainer.reporting import curve
from trainer.storage.records import write_whole
from user_error import UserError


def place(out: str) -> Path:
    """The name of a study's files, whose folder is there from now on."""
    if Path(out).name in ("", ".."):
        raise UserError(f"--out={out}: expected a name for files, such as logs/studies/first.")
    try:
        Path(out).parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=Path(out).parent).close()
    except OSError as error:
        raise _not_written(Path(out), error) from None
    return Path(out)


def file(out: Path, ending: str) -> Path:
    """One of the files; a name may have a dot of its own, as lag-1.5 has."""
    return Path(f"{out}.{ending}")


def write(
    out: Path,
    about: Mapping[str, Any],
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    drawn: Callable[[], Any],
) -> None:
    """Writes a study; ``drawn`` makes its figure. Without a picture it was not written whole."""
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows([columns, *rows])
    try:
        file(out, "png").unlink(missing_ok=True)
        # First what a study goes on with: a disk may be full by the next one.
        write_whole(file(out, "json"), f"{json.dumps(about, indent=2)}\n".encode())
        write_whole(file(out, "csv"), table.getvalue().encode())
        write_whole(file(out, "png"), curve.png(drawn()))
    except OSError as error:
        raise _not_written(out, error) from None


def _not_written(out: Path, error: OSError) -> UserError:
    return UserError(f"--out={out} cannot be written ({error.strerror or error}).")
