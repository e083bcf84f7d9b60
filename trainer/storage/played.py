"""Play on disk: what environments showed and what was done, for whoever learns from it later.

A part is a file with rows [T, N] of N games, as an unroll has them: row t holds what action t led
to, and a row that is ``first`` starts an episode. Nothing continues from one part to the next, but
for the first row, which may be the last of the part before.
"""

import contextlib
import fcntl
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from environments import EnvironmentSpec, View
from flags import text_of
from trainer.storage import npz
from trainer.storage.folder import GOES_ON, remove_leftovers, writing
from user_error import UserError

NAME = re.compile(r"part-(\d{6})\.npz")


class Part(NamedTuple):
    """Some real play."""

    frames: np.ndarray  # [T, N, ...], what an agent sees; of stacked observations the newest
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
    about: dict[str, Any]  # level_name, looks, epoch, returns of the episodes that ended


def store(folder: Path, stored: Stored, then: str = GOES_ON) -> Path:
    """Writes a part under the next number, whole or not at all.

    ``then`` is what an error says is to be done.
    """
    with writing(folder, then), _alone(folder):
        remove_leftovers(folder)
        number = max((_number(path) for path in parts_in(folder)), default=-1) + 1
        path = folder / f"part-{number:06d}.npz"
        about = np.frombuffer(json.dumps(stored.about).encode(), np.uint8)
        with npz.replacing(path) as file:
            np.savez_compressed(file, about=about, **stored.part._asdict())
    return path


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """While others who write to this folder wait, so that no two take the same number."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "ab") as lock:
        with contextlib.suppress(OSError):  # the file system has no locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def parts_in(folder: Path) -> list[Path]:
    """The files of parts, oldest first."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if NAME.fullmatch(path.name))


def read(path: Path) -> Stored:
    """A part from its file."""
    try:
        arrays = npz.arrays_in(path)
        about = json.loads(arrays.pop("about").tobytes())
        return Stored(Part(**arrays), about)
    except Exception as error:  # parsing damaged bytes can raise anything
        npz.refuse_unread(path, error)
        raise UserError(
            f"{path} is damaged ({error}). Delete it: as much is played again when a run of "
            "--algorithm=simple goes on."
        ) from None


def read_all(folder: Path, level_name: str) -> list[Stored]:
    """All parts of a folder; refuses those of another game."""
    paths = parts_in(folder)  # once: more may be recorded meanwhile
    found = [read(path) for path in paths]
    for path, stored in zip(paths, found, strict=True):
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


def looks_of(view: Mapping[str, Any]) -> dict[str, Any]:
    """The flags of a ``View`` by which play differs, each in one form however it was written."""
    alike = {name: value for name, value in view.items() if name != "frame_stack"}
    return alike | View(**view).made_with | {"crop": view["crop"].replace(" ", "")}


def check_looks(
    stored: Sequence[Stored], spec: EnvironmentSpec, looks: Mapping[str, Any], folder: Path
) -> None:
    """Refuses play of the same level that shows other pictures, has other actions or looks."""
    seen, acts = spec.observation_space, spec.action_space
    for part, about in stored:
        if part.frames.shape[2:] != seen.shape or part.frames.dtype != seen.dtype:
            raise UserError(
                f"{folder} has play with observations of {list(part.frames.shape[2:])} "
                f"{part.frames.dtype}, and the level's are {list(seen.shape)} {seen.dtype}. Give "
                "the same --width, --height, --crop and --colour, or choose another --logdir."
            )
        if isinstance(acts, gymnasium.spaces.Discrete) and part.action.max() >= acts.n:
            raise UserError(
                f"{folder} has play with action {part.action.max()}, and there are {acts.n}. Give "
                "the same --full_action_set, or choose another --logdir."
            )
        before = {**looks, **about.get("looks", {})}  # earlier versions did not write them
        changed = [name for name, value in looks.items() if before[name] != value]
        if changed:
            had, has = (
                " ".join(f"--{name}={text_of(each[name])}" for name in changed)
                for each in (before, looks)
            )
            raise UserError(
                f"{folder} has play with {had}, and this command has {has}. Give the same, or "
                "choose another --logdir."
            )
