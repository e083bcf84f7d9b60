"""The id that another program has given to a run, kept in the run's folder for its resumes."""

from pathlib import Path

from trainer.storage.records import write_whole


def read(folder: Path, name: str) -> str:
    """The id in the file of that name; "" if there is none."""
    path = folder / name
    return path.read_text().strip() if path.exists() else ""


def write(folder: Path, name: str, run_id: str) -> None:
    """Keeps the id."""
    write_whole(folder / name, f"{run_id}\n".encode())
