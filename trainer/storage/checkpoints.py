"""Checkpoints: one file each, whole or not there at all.

A file is written under a temporary name, flushed to the disk and renamed, so that neither a
crash nor a full disk touches the checkpoints before it. It is a zip of arrays (NumPy's .npz)
with checksums, so that a damaged file is noticed and the one before it used.
"""

import contextlib
import dataclasses
import io
import json
import os
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from user_error import UserError

BEST = "best.npz"
GROUPS = ("weights", "optimizer", "algorithm")
# The last arrays of the optimizer's, before they had names.
POPART = ("popart_mean", "popart_mean_square", "popart_seen")
NAME = re.compile(r"frames-(\d+)\.npz")


@dataclasses.dataclass
class Checkpoint:
    """Everything that a run needs to go on."""

    weights: dict[str, np.ndarray]
    optimizer: dict[str, np.ndarray]
    algorithm: dict[str, np.ndarray]  # what it keeps besides, such as PopArt's estimates
    counters: dict[str, Any]  # frames, agent_steps, updates, train_seconds, best_return
    settings: dict[str, Any]


class Damaged(Exception):
    """The file is no whole checkpoint."""


class Store:
    """The checkpoints of a run: the newest few by frames, and the best."""

    def __init__(self, folder: Path, keep: int):
        self.folder = folder
        self._keep = keep

    def save(self, checkpoint: Checkpoint) -> Path:
        """Writes a checkpoint named after its frames and drops the oldest; may raise OSError."""
        path = self.folder / f"frames-{checkpoint.counters['environment_frames']:015d}.npz"
        self._write(checkpoint, path)
        # Those of more frames are damaged ones that were passed over: they do not count.
        older = [one for one in self.numbered() if _frames_in_name(one) < _frames_in_name(path)]
        for old in older[self._keep - 1 :]:
            with contextlib.suppress(OSError):  # another user's; what was to be written is there
                old.unlink()
        return path

    def save_best(self, checkpoint: Checkpoint) -> Path:
        """Writes the checkpoint with the best return so far; may raise OSError."""
        self._write(checkpoint, self.folder / BEST)
        return self.folder / BEST

    def best_return(self, warn: Callable[[str], None]) -> float | None:
        """The return that the best checkpoint was saved for; None without one that can be read."""
        if not (self.folder / BEST).exists():
            return None
        try:
            return read(self.folder / BEST).counters.get("best_return")
        except Damaged as error:
            warn(f"{error}; the next good checkpoint takes its place.")
            return None

    def numbered(self) -> list[Path]:
        """Checkpoints named after their frames, the newest first."""
        if not self.folder.is_dir():
            return []
        return sorted(
            (path for path in self.folder.iterdir() if NAME.fullmatch(path.name)),
            key=_frames_in_name,
            reverse=True,
        )

    def remove_leftovers(self) -> None:
        """Removes files that a process was killed over; only a folder's one writer may."""
        for temporary in self.folder.glob(".*.npz.*.tmp"):
            with contextlib.suppress(OSError):  # another user's
                temporary.unlink()

    def newest(self, warn: Callable[[str], None]) -> tuple[Path, Checkpoint] | None:
        """The newest whole checkpoint; damaged ones are passed over with a warning."""
        candidates = self.numbered()
        if (self.folder / BEST).exists():
            candidates.append(self.folder / BEST)
        for path in candidates:
            try:
                return path, read(path)
            except Damaged as error:
                warn(f"{error}; falling back to the checkpoint before it.")
        if candidates:
            raise UserError(
                f"none of the {len(candidates)} checkpoints in {self.folder} can be read. "
                "Move the folder away to start anew."
            )
        return None

    def find(self, which: str, warn: Callable[[str], None]) -> tuple[Path, Checkpoint]:
        """The checkpoint that ``--checkpoint`` asks for."""
        if which == "newest":
            found = self.newest(warn)
            if found is None:
                raise UserError(
                    f"there is no checkpoint in {self.folder}. Train first, or name the run's "
                    "folder with --logdir."
                )
            return found
        if which == "best":
            path = self.folder / BEST
        elif which.isdigit():
            path = self.folder / f"frames-{int(which):015d}.npz"
        else:
            path = Path(which)
        if not path.is_file():
            there = ", ".join(str(_frames_in_name(one)) for one in self.numbered())
            raise UserError(
                f"--checkpoint={which}: there is no file {path}. In {self.folder} are: "
                f"{there or 'none'}{', best' if (self.folder / BEST).exists() else ''}."
            )
        try:
            return path, read(path)
        except Damaged as error:
            raise UserError(f"--checkpoint={which}: {error}.") from None

    def _write(self, checkpoint: Checkpoint, path: Path) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            with open(temporary, "wb") as file:
                write(checkpoint, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _flush_folder(self.folder)


def write(checkpoint: Checkpoint, file: Any) -> None:
    """Writes a checkpoint to an open file."""
    arrays = {
        f"{group}/{name}": array
        for group in GROUPS
        for name, array in getattr(checkpoint, group).items()
    }
    about = json.dumps({"counters": checkpoint.counters, "settings": checkpoint.settings})
    np.savez(file, about=np.frombuffer(about.encode(), np.uint8), **arrays)


def read(path: Path) -> Checkpoint:
    """A checkpoint from its file; ``Damaged`` when it is not whole."""
    try:
        with zipfile.ZipFile(path) as file:
            # Read to the end, so that checksums are compared: NumPy stops where an array's
            # header says, which may be the damaged part.
            arrays = {
                name.removesuffix(".npy"): np.lib.format.read_array(io.BytesIO(file.read(name)))
                for name in file.namelist()
            }
        if len(arrays) != _entries(path):
            raise ValueError("arrays are missing")
        about = json.loads(arrays.pop("about").tobytes())
        if "weights_0000" in arrays:
            arrays = _renamed(arrays, about["settings"])
        groups = {
            group: {
                name.removeprefix(f"{group}/"): array
                for name, array in arrays.items()
                if name.startswith(f"{group}/")
            }
            for group in GROUPS
        }
        return Checkpoint(**groups, counters=about["counters"], settings=about["settings"])
    except Exception as error:  # what a parser says of bytes that mean nothing is beyond a list
        raise Damaged(f"{path} is damaged ({error})") from error


def _renamed(arrays: dict[str, np.ndarray], settings: dict[str, Any]) -> dict[str, np.ndarray]:
    """The arrays of a checkpoint from when they had numbers and no names, by names of today.

    Weights keep their numbers: they are in the order of an agent's variables.
    """
    names = sorted(arrays)
    last = [name for name in names if name.startswith("optimizer_")][-len(POPART) :]
    kept = dict(zip(last, POPART, strict=True)) if settings.get("popart") else {}
    return {
        f"algorithm/{kept[name]}" if name in kept else name.replace("_", "/", 1): arrays[name]
        for name in names
    }


def _entries(path: Path) -> int:
    """How many entries a zip says it has; ``zipfile`` does not miss one that it cannot see."""
    with open(path, "rb") as file:
        file.seek(-12, os.SEEK_END)
        return int.from_bytes(file.read(2), "little")


def _frames_in_name(path: Path) -> int:
    """The frames that a numbered checkpoint is named after."""
    return int(path.stem.removeprefix("frames-"))


def _flush_folder(folder: Path) -> None:
    """Makes a rename outlive a power cut, where the file system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
