"""What is played by hand, on disk while it is played: a video, each step, and play to learn from.

A player that is killed loses nothing of the video and the steps, and at most the newest
``ROWS_OF_PART`` steps of the play to learn from.
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import imageio.v2 as imageio
import numpy as np

from environments import EnvironmentStep, Episode
from trainer.storage.folder import writing
from trainer.storage.played import Part, Stored, store
from trainer.storage.records import LinesFile, to_line

ROWS_OF_PART = 100
SIDE = 16  # sides of videos are multiples of this
# In pieces, each of which can be played: also where the end of the file was never written.
IN_PIECES = ["-movflags", "+frag_keyframe+empty_moov", "-g", "30"]


class Recording:
    """Files that grow with a session."""

    def __init__(
        self,
        folder: Path,
        fps: float,
        play: Path | None = None,
        level_name: str = "",
        looks: Mapping[str, Any] = MappingProxyType({}),
    ):
        """Writes a video and steps into ``folder``, and play of the level into ``play``.

        ``looks`` are those of ``played.looks_of``.
        """
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{time.strftime('%Y%m%d-%H%M%S')}.mp4"
        self.parts: list[Path] = []  # of play
        self.error: OSError | None = None  # the video is not complete
        self.steps_error: OSError | None = None  # lines of steps are missing
        self._steps = LinesFile(self.path.with_suffix(".jsonl"))
        self._fps = fps
        self._play, self._level_name, self._looks = play, level_name, dict(looks)
        self._rows: list[tuple[EnvironmentStep, int]] = []  # of the part in hand
        self._return, self._length = 0.0, 0  # of the game in hand
        self._ended: list[Episode] = []  # in the part
        self._video: Any = None

    def add(self, row: EnvironmentStep, action: int, ended: Sequence[Episode] | None) -> None:
        """Takes a row of the real game, and the action that led to it.

        ``ended`` are the games that it ended, all lives of each; None: another has been started.
        """
        reward, over, first = float(row.reward[0]), bool(row.terminated[0]), bool(row.first[0])
        step = {"action": action, "reward": reward, "first": first, "terminated": over}
        self._steps.append_line(to_line(step))
        self.steps_error = self.steps_error or self._steps.error
        if not self._play:
            return
        self._rows.append((row, action))
        self._return, self._length = self._return + reward, self._length + (not first)
        if ended or ended is None:
            self._return, self._length = 0.0, 0
        self._ended += ended or []
        if len(self._rows) > ROWS_OF_PART:
            self._store("The game ends here; make room before you play on.")

    def show(self, picture: np.ndarray) -> None:
        """Takes a picture [H, W, 3] of what is seen; the first one says how large all are."""
        if self.error:
            return
        try:
            if self._video is None:
                height, width = (-(-side // SIDE) * SIDE for side in picture.shape[:2])
                self._canvas = np.zeros([height, width, 3], np.uint8)
                self._video = imageio.get_writer(
                    self.path, fps=self._fps, macro_block_size=1, output_params=IN_PIECES
                )
            height, width = self._canvas.shape[:2]
            self._canvas[: picture.shape[0], : picture.shape[1]] = picture[:height, :width]
            self._video.append_data(self._canvas)
        except OSError as error:
            self.error = error

    @property
    def steps_path(self) -> Path:
        """The file with a line for each step."""
        return self._steps.path

    def close(self) -> None:
        """Writes what is still in hand."""
        if self._video is not None:
            try:
                self._video.close()
            except OSError as error:
                self.error = self.error or error
        steps = sum(not row.first[0] for row, _ in self._rows[1:])
        self._store(f"Your newest {steps} steps are lost, no others; make room before you play on.")

    def _store(self, then: str) -> None:
        """Stores a part; the next one begins with its last row.

        Where that fails, the rows stay in hand; ``then`` is what the error says is to be done.
        """
        rows = self._rows
        if not self._play or not rows:
            return
        columns = (np.stack([row[n] for row, _ in rows]) for n in range(4))
        observation, reward, terminated, first = columns
        action = np.array([[action] for _, action in rows], np.int32)
        part = Part(observation, action, reward, terminated, first)
        if not part.steps:
            self._rows = rows[-1:]
            return
        about = {
            "level_name": self._level_name,
            "looks": self._looks,
            "epoch": 0,
            "by": "a person",
            "returns": [one.raw_return for one in self._ended],
            "lengths": [one.length for one in self._ended],
            "unfinished_returns": [self._return] if self._length else [],
            "unfinished_lengths": [self._length] if self._length else [],
        }
        self.parts.append(store(self._play, Stored(part, about), then))
        self._rows, self._ended = rows[-1:], []
