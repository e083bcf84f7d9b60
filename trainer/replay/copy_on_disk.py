"""The copy of a replay store on disk, brought up to date slot by slot.

Each array is a file of fixed size (.npy). A save first notes in ``slots.npy`` what each changed
slot is going to hold, then writes these slots, then replaces the index. A slot that was not
written completely, whatever happened, is one for which note and index differ.
"""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from trainer.replay.streams import NONE
from trainer.storage import npz
from trainer.storage.folder import flush
from user_error import UserError

INDEX = "index.npz"
NOTES = "slots"
PIECE = 2**26  # bytes written at once: Linux takes at most 2 GiB


class OtherReplay(UserError):
    """A copy that is whole, but of a store with other settings."""


class ReplayCopy:
    """One folder's copy of ``arrays``, [slots, ...] each, by the names of their files."""

    def __init__(self, folder: Path, arrays: dict[str, np.ndarray]):
        self.folder = folder
        self._arrays = arrays
        self._offsets: dict[str, int] = {}  # where the arrays begin in their files
        self._saved: np.ndarray | None = None  # what the slots of a complete copy hold

    def save(self, sequence: np.ndarray, about: dict[str, np.ndarray]) -> None:
        """Writes the slots that changed since the last save; may raise OSError.

        After an error the copy lacks these slots, until a later save succeeds.

        Args:
            sequence: int64 [slots], another number for every content of a slot, or ``NONE``.
            about: further small arrays, which are written in whole.
        """
        notes = np.array(sequence, np.int64)
        if self._saved is None:
            self._begin(notes)
            self._saved = np.full_like(notes, NONE)
        changed = np.flatnonzero(notes != self._saved)
        for name, array in {NOTES: notes, **self._arrays}.items():
            self._write(name, array, changed)
        self._write_index({NOTES: notes, **about})
        self._saved = notes

    def load(
        self, check: Callable[[dict[str, np.ndarray]], None]
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Reads all complete slots into the arrays, unless ``check`` refuses what ``about`` is.

        Returns:
            What each slot holds, ``NONE`` where it is not complete, and ``about``.

        Raises:
            UserError: there is no complete copy, or it is one of other arrays. ``npz.Unread`` if
                there may be one that cannot be read now.
        """
        about = self._read_index()
        check(about)
        indexed = about.pop(NOTES)
        notes = np.full_like(indexed, NONE)
        self._read(NOTES, notes, np.arange(len(notes)))
        saved = np.where(notes == indexed, indexed, NONE)
        complete = np.flatnonzero(saved != NONE)
        for name, array in self._arrays.items():
            self._read(name, array, complete)
        self._saved = saved
        return saved, about

    def _begin(self, notes: np.ndarray) -> None:
        """Makes empty files; a copy that another process left is no longer one."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / INDEX).unlink(missing_ok=True)
        flush(self.folder)
        for name, array in {NOTES: notes, **self._arrays}.items():
            path = self._path(name)
            made = np.lib.format.open_memmap(path, "w+", array.dtype, array.shape)
            self._offsets[name] = made.offset

    def _write(self, name: str, array: np.ndarray, slots: np.ndarray) -> None:
        # Not through a map: on a full disk that would end the process with a signal.
        with open(self._path(name), "r+b") as file:
            for start, stop in _runs(slots):
                data = array[start:stop].reshape(-1).view(np.uint8).data
                offset = self._offsets[name] + start * array[:1].nbytes
                while data:
                    written = os.pwrite(file.fileno(), data[:PIECE], offset)
                    data, offset = data[written:], offset + written
            os.fsync(file.fileno())

    def _write_index(self, about: dict[str, Any]) -> None:
        temporary = self.folder / f".{INDEX}.tmp"
        layout = np.frombuffer(self._layout().encode(), np.uint8)
        with open(temporary, "wb") as file:
            np.savez(file, layout=layout, **about)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self.folder / INDEX)
        flush(self.folder)

    def _read_index(self) -> dict[str, np.ndarray]:
        path = self.folder / INDEX
        try:
            about = npz.arrays_in(path)
            layout = about.pop("layout").tobytes().decode()
        except FileNotFoundError:
            raise UserError(
                f"{self.folder} has no complete copy of a replay: {INDEX} is missing."
            ) from None
        except Exception as error:  # parsing damaged bytes can raise anything
            raise _damaged(path, error) from None
        if layout != self._layout():
            raise OtherReplay(
                f"{self.folder} is the copy of a replay of another size, or of other "
                "observations, actions or unrolls. Give the settings that it was kept with "
                "(--replay_steps, --unroll_length), or move it away to begin an empty replay."
            )
        return about

    def _read(self, name: str, array: np.ndarray, slots: np.ndarray) -> None:
        try:
            mapped = np.load(self._path(name), mmap_mode="r")
            if mapped.shape != array.shape or mapped.dtype != array.dtype:
                raise ValueError(f"it has {mapped.dtype}{list(mapped.shape)}")
        except Exception as error:
            raise _damaged(self._path(name), error) from None
        for start, stop in _runs(slots):
            array[start:stop] = mapped[start:stop]
        self._offsets[name] = mapped.offset

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.npy"

    def _layout(self) -> str:
        return json.dumps(
            {name: [str(array.dtype), array.shape] for name, array in self._arrays.items()}
        )


def _damaged(path: Path, error: Exception) -> UserError:
    """What to raise for a file that could not be read; raises ``npz.Unread`` if it may be whole."""
    if not isinstance(error, FileNotFoundError):
        npz.refuse_unread(path, error)
    return UserError(f"{path} is damaged ({error}): the replay is lost.")


def _runs(slots: np.ndarray) -> Iterator[tuple[int, int]]:
    """Ascending numbers as ranges."""
    for run in np.split(slots, np.flatnonzero(np.diff(slots) != 1) + 1):
        if len(run):
            yield int(run[0]), int(run[-1]) + 1
