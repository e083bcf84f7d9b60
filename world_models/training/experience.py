"""Real play on disk and in memory: parts are stored, pieces of them are drawn.

A part is a file with rows [T, N] of N games, as an unroll has them: row t holds what action t led
to, and a row that is ``first`` starts an episode. Nothing continues from one part to the next.
"""

import io
import json
import os
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from environments.dream import Starts
from trainer.storage.folder import flush
from user_error import UserError
from world_models.networks.loss import Windows
from world_models.training.folders import writing

NAME = re.compile(r"part-(\d{6})\.npz")


class Part(NamedTuple):
    """Some real play."""

    frames: np.ndarray  # uint8 [T, N, H, W, C]
    action: np.ndarray  # int32 [T, N]
    reward: np.ndarray  # float32 [T, N], raw
    terminated: np.ndarray  # bool [T, N]
    first: np.ndarray  # bool [T, N]

    @property
    def steps(self) -> int:
        """The agent steps in it."""
        return int((~self.first[1:]).sum())


class Stored(NamedTuple):
    """A part as a file has it."""

    part: Part
    about: dict[str, Any]  # level_name, epoch, returns of the episodes that ended


def store(folder: Path, stored: Stored) -> Path:
    """Writes a part under the next number, whole or not at all."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        number = max((_number(path) for path in parts_in(folder)), default=-1) + 1
        path = folder / f"part-{number:06d}.npz"
        temporary = folder / f".{path.name}.tmp"
        about = np.frombuffer(json.dumps(stored.about).encode(), np.uint8)
        try:
            with open(temporary, "wb") as file:
                np.savez_compressed(file, about=about, **stored.part._asdict())
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        flush(folder)
    return path


def parts_in(folder: Path) -> list[Path]:
    """The files of parts, oldest first."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if NAME.fullmatch(path.name))


def read(path: Path) -> Stored:
    """A part from its file."""
    try:
        with zipfile.ZipFile(path) as file:
            arrays = {
                name.removesuffix(".npy"): np.lib.format.read_array(io.BytesIO(file.read(name)))
                for name in file.namelist()
            }
        about = json.loads(arrays.pop("about").tobytes())
        return Stored(Part(**arrays), about)
    except Exception as error:  # parsing damaged bytes can raise anything
        raise UserError(
            f"{path} is damaged ({error}). Delete it: as much is played again when the same "
            "command goes on."
        ) from None


def read_all(folder: Path, level_name: str) -> list[Stored]:
    """All parts of a folder; refuses those of another game."""
    found = [read(path) for path in parts_in(folder)]
    for path, stored in zip(parts_in(folder), found, strict=True):
        if stored.about["level_name"] != level_name:
            raise UserError(
                f"--level_name={level_name}: {path} is play of {stored.about['level_name']}. "
                "Name that level, or choose another --logdir."
            )
    return found


def _number(path: Path) -> int:
    match = NAME.fullmatch(path.name)
    assert match
    return int(match[1])


class Experience:
    """Play in memory, each game's rows after one another, from which pieces are drawn."""

    def __init__(self, parts: Sequence[Part], frames: int):
        """``frames`` pictures are a stack."""
        self._frames = frames

        def rows(name: str) -> np.ndarray:
            each = (np.swapaxes(getattr(part, name), 0, 1) for part in parts)
            return np.concatenate([one.reshape(-1, *one.shape[2:]) for one in each])

        self.pictures, self.action = rows("frames"), rows("action")
        self.reward, self.terminated = rows("reward"), rows("terminated")
        first = rows("first")
        lengths = [part.first.shape[0] for part in parts for _ in range(part.first.shape[1])]
        begins = first.copy()  # of an episode, or of what is known of one
        begins[np.cumsum([0, *lengths[:-1]])] = True
        # For each row, where what is known of its episode starts.
        self._start = np.maximum.accumulate(np.where(begins, np.arange(len(begins)), 0))
        stacked = (np.arange(len(begins)) - self._start >= frames - 1) | first[self._start]
        # A target follows a row whose stack is known.
        self.targets = np.flatnonzero(~begins & np.append(False, stacked[:-1]))
        self.beginnings = np.flatnonzero(first & ~self.terminated)
        self._within = np.flatnonzero(stacked & ~self.terminated)

    def windows(self, targets: np.ndarray, length: int) -> Windows:
        """What leads to these rows, and what follows: ``length`` steps, the first to the row."""
        steps = targets[:, None] + np.arange(length)
        inside = steps < len(self._start)
        steps = np.where(inside, steps, targets[:, None])
        start = self._start[targets - 1][:, None]
        valid = inside & (self._start[steps] == start)
        before = np.maximum(targets[:, None] - self._frames + np.arange(self._frames), start)
        return Windows(
            self.pictures[np.concatenate([before, steps], axis=1)],
            self.action[steps],
            self.reward[steps],
            self.terminated[steps],
            valid.astype(np.float32),
        )

    def draw(self, count: int, length: int, random: np.random.Generator) -> Windows:
        """Pieces of which each step of real play is as likely to be the first as any other."""
        return self.windows(random.choice(self.targets, count), length)

    def starts(
        self, count: int, true_starts: float, random: np.random.Generator, depth: int = 0
    ) -> Starts:
        """Stacks to go on from, some of them of episodes' beginnings, of at least ``depth``."""
        rows = random.choice(self._within, count)
        if len(self.beginnings):
            begin = random.random(count) < true_starts
            rows = np.where(begin, random.choice(self.beginnings, count), rows)
        depth = max(depth, self._frames)
        return Starts(self.stacks(rows, depth), np.minimum(rows - self._start[rows], depth - 1))

    def stacks(self, rows: np.ndarray, depth: int = 0) -> np.ndarray:
        """The newest pictures at these rows [count, H, W, F C], oldest first.

        F are those that a model sees, or ``depth``; of an episode's start, the first repeats.
        """
        depth = depth or self._frames
        indices = rows[:, None] - depth + 1 + np.arange(depth)
        seen = self.pictures[np.maximum(indices, self._start[rows][:, None])]
        moved = np.moveaxis(seen, 1, -2)
        return moved.reshape(*moved.shape[:-2], -1)
