"""Checkpoints: one file each, written atomically.

A file is written under a temporary name, flushed to disk and renamed, so neither a crash nor a
full disk affects earlier checkpoints. It is a zip of arrays (NumPy's .npz) with checksums, so a
damaged file is detected and the previous one is used.
"""

import contextlib
import dataclasses
import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from trainer.storage import npz
from user_error import UserError

BEST = "best.npz"
GROUPS = ("weights", "optimizer", "algorithm")
KINDS = "body_kinds"  # beside the settings: what bodies see and do, if they differ
SEATS = "seats"  # there, too: the bodies of a game that the agent plays
# In old checkpoints without names, the last arrays of the optimizer.
POPART = ("popart_mean", "popart_mean_square", "popart_seen")
# What held while these were no settings yet.
UNNAMED = {
    "algorithm": "impala",
    "hidden_sizes": "",
    "channels": "",
    "lstm_size": 0,
    "normalise_observations": False,
    "separate_baseline": "off",
    "state_deviations": True,
    "action_masks": False,
    "normalise_advantages": False,
}
OF_VECTORS = ("VectorAgent", "VectorLSTMAgent")  # which had tanh before there was a choice
FOLDER = "checkpoints"
OF_POLICY = f"policy/{FOLDER}"  # in the run of a program of trainings, which has a link to it
NAME = re.compile(r"frames-(\d+)\.npz")


@dataclasses.dataclass
class Checkpoint:
    """Everything that a run needs to resume."""

    weights: dict[str, np.ndarray]
    optimizer: dict[str, np.ndarray]
    algorithm: dict[str, np.ndarray]  # its own state, such as PopArt's estimates
    # environment_frames, agent_steps, updates, wall_time, best_return and others
    counters: dict[str, Any]
    settings: dict[str, Any]


class Damaged(Exception):
    """The file is not a complete checkpoint, or not there any more."""


def folder_of(run: Path) -> Path:
    """The checkpoints of a run's agent, also where the file system had no link to its policy's."""
    own, policy = run / FOLDER, run / OF_POLICY
    return policy if policy.is_dir() and not own.exists() else own


class Store:
    """The checkpoints of a run: the newest few by frames, and the best."""

    def __init__(self, folder: Path, keep: int):
        self.folder = folder
        self._keep = keep

    def save(self, checkpoint: Checkpoint) -> Path:
        """Writes a checkpoint named after its frames and deletes the oldest; may raise OSError."""
        path = self.folder / f"frames-{checkpoint.counters['environment_frames']:015d}.npz"
        self._write(checkpoint, path)
        # Files with more frames are damaged ones that the run skipped: they do not count.
        older = [one for one in self.numbered() if _frames_in_name(one) < _frames_in_name(path)]
        for old in older[self._keep - 1 :]:
            with contextlib.suppress(OSError):  # it may be another user's; the new one is written
                old.unlink()
        return path

    def save_best(self, checkpoint: Checkpoint) -> Path:
        """Writes the checkpoint with the best return so far; may raise OSError."""
        self._write(checkpoint, self.folder / BEST)
        return self.folder / BEST

    def set_best_aside(self) -> Path:
        """Renames the best checkpoint, so that another one does not replace it."""
        aside = self.folder / f"best-until-{time.strftime('%Y%m%d-%H%M%S')}.npz"
        return (self.folder / BEST).rename(aside)

    def best(self, warn: Callable[[str], None]) -> Checkpoint | None:
        """The checkpoint with the best return; None if it is missing or damaged."""
        if not (self.folder / BEST).exists():
            return None
        try:
            return read(self.folder / BEST)
        except Damaged as error:
            warn(f"{error}; the next best checkpoint will replace it.")
            return None

    def numbered(self) -> list[Path]:
        """Checkpoints named after their frames, newest first."""
        if not self.folder.is_dir():
            return []
        return sorted(
            (path for path in self.folder.iterdir() if NAME.fullmatch(path.name)),
            key=_frames_in_name,
            reverse=True,
        )

    def remove_leftovers(self) -> None:
        """Deletes temporary files of killed processes; only the holder of the folder's lock may."""
        for temporary in self.folder.glob(".*.npz.*.tmp"):
            with contextlib.suppress(OSError):  # it may be another user's
                temporary.unlink()

    def newest(self, warn: Callable[[str], None]) -> tuple[Path, Checkpoint] | None:
        """The newest complete checkpoint; damaged ones are skipped with a warning."""
        candidates = self.numbered()
        if (self.folder / BEST).exists():
            candidates.append(self.folder / BEST)
        for path in candidates:
            try:
                return path, read(path)
            except Damaged as error:
                warn(f"{error}; falling back to the previous checkpoint.")
        if candidates:
            raise UserError(
                f"none of the {len(candidates)} checkpoints in {self.folder} can be read. "
                "Move the folder away to start from scratch."
            )
        return None

    def find(self, which: str, warn: Callable[[str], None]) -> tuple[Path, Checkpoint]:
        """The checkpoint that ``--checkpoint`` selects."""
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
        elif which.isascii() and which.isdigit():
            path = self.folder / f"frames-{int(which):015d}.npz"
        else:
            path = Path(which)
        if not path.is_file():
            available = ", ".join(str(_frames_in_name(one)) for one in self.numbered())
            raise UserError(
                f"--checkpoint={which}: there is no file {path}. Available in {self.folder}: "
                f"{available or 'none'}{', best' if (self.folder / BEST).exists() else ''}."
            )
        try:
            return path, read(path)
        except Damaged as error:
            raise UserError(f"--checkpoint={which}: {error}.") from None

    def _write(self, checkpoint: Checkpoint, path: Path) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with npz.replacing(path) as file:
            write(checkpoint, file)


def write(checkpoint: Checkpoint, file: Any, compress: bool = False) -> None:
    """Writes a checkpoint to an open file."""
    arrays = {
        f"{group}/{name}": array
        for group in GROUPS
        for name, array in getattr(checkpoint, group).items()
    }
    about = json.dumps({"counters": checkpoint.counters, "settings": checkpoint.settings})
    save = np.savez_compressed if compress else np.savez
    save(file, about=np.frombuffer(about.encode(), np.uint8), **arrays)


def read(path: Path) -> Checkpoint:
    """Reads a checkpoint; raises ``Damaged`` if the file is not complete.

    One that may be complete and cannot be read is a ``UserError``: nothing older takes its place.
    """
    try:
        arrays = npz.arrays_in(path)
        if len(arrays) != _entry_count(path):
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
        groups["algorithm"] = _with_variance(groups["algorithm"])
        groups["weights"] = {name: _widened(one) for name, one in groups["weights"].items()}
        settings = UNNAMED | about["settings"]
        if isinstance(settings["separate_baseline"], bool):
            settings["separate_baseline"] = "on" if settings["separate_baseline"] else "off"
        of_vectors = settings.get("agent_name") in OF_VECTORS
        settings.setdefault("activation", "tanh" if of_vectors else "auto")
        if of_vectors:
            settings["channels"] = ""  # had no effect before they were refused
        return Checkpoint(**groups, counters=about["counters"], settings=settings)
    except FileNotFoundError:
        raise Damaged(f"{path} has been removed") from None
    except Exception as error:  # parsing damaged bytes can raise anything
        npz.refuse_unread(path, error)
        raise Damaged(f"{path} is damaged ({error})") from error


def _renamed(arrays: dict[str, np.ndarray], settings: dict[str, Any]) -> dict[str, np.ndarray]:
    """The arrays of an old checkpoint, which have numbers instead of names, by their names.

    Weights keep their numbers: they are in the order of an agent's variables.
    """
    names = sorted(arrays)
    last = [name for name in names if name.startswith("optimizer_")][-len(POPART) :]
    kept = dict(zip(last, POPART, strict=True)) if settings.get("popart") else {}
    return {
        f"algorithm/{kept[name]}" if name in kept else name.replace("_", "/", 1): arrays[name]
        for name in names
    }


def _widened(array: np.ndarray) -> np.ndarray:
    """Weights of a bundle, which has 16 bits of them, in 32 bits."""
    return array.astype(np.float32) if array.dtype == np.float16 else array


def _with_variance(kept: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """PopArt's variance in place of the mean square that old checkpoints have."""
    return {
        name.replace("mean_square", "variance"): (
            np.maximum(array - kept["popart_mean"] ** 2, 0.0)
            if name == "popart_mean_square"
            else array
        )
        for name, array in kept.items()
    }


def _entry_count(path: Path) -> int:
    """The number of entries that a zip declares; ``zipfile`` does not notice missing ones."""
    with open(path, "rb") as file:
        file.seek(-12, os.SEEK_END)
        return int.from_bytes(file.read(2), "little")


def _frames_in_name(path: Path) -> int:
    """The number of frames in a checkpoint's name."""
    return int(path.stem.removeprefix("frames-"))
