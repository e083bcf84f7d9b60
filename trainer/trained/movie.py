"""Videos, written while their pictures are drawn."""

import contextlib
import glob
import os
import subprocess
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import numpy as np

from trainer.storage.folder import remove_leftovers

GIF_PICTURES_PER_SECOND = 15
GIF_SECONDS = 60
GIF_COLOURS = 96
ENCODER_FAILED = "ffmpeg could not write it: is the disk full?"
NO_PICTURE = "no game with pictures has begun"


class Movie:
    """A video that is written picture by picture and gets its name once it is complete.

    ``problem`` says why it failed, such as a full disk; the games continue without it.
    """

    def __init__(self, path: Path, pictures_per_second: float):
        self._path = path
        self._rate = pictures_per_second
        self._gif = path.suffix.lower() == ".gif"
        remove_leftovers(path.parent, f".{glob.escape(path.stem)}.[0-9]*.mp4")
        self._raw = temporary(path, ".mp4")
        self._encoder: subprocess.Popen | None = None
        self._pictures = 0
        self.problem = ""

    def __enter__(self) -> "Movie":
        return self

    def __exit__(self, kind: Any, *error: Any) -> None:
        if self._encoder is None:
            self.problem = NO_PICTURE
            return
        if kind is not None:
            self._encoder.kill()
        try:
            with contextlib.suppress(OSError):
                self._encoder.communicate()
            if self._encoder.returncode:
                self.problem = ENCODER_FAILED
            elif kind is None:
                self._finish()
        except OSError as failed:
            self.problem = failed.strerror or str(failed)
        except subprocess.CalledProcessError:
            self.problem = ENCODER_FAILED
        finally:
            self._raw.unlink(missing_ok=True)

    def add(self, picture: np.ndarray) -> None:
        """Appends a picture, RGB [H, W, 3]; all must have the same size."""
        if self.problem or (self._gif and self._pictures >= GIF_SECONDS * self._rate):
            return
        if self._encoder is None:
            self._encoder = self._encoding(*picture.shape[:2])
        assert self._encoder.stdin
        try:
            self._encoder.stdin.write(picture.tobytes())
        except OSError:
            self.problem = ENCODER_FAILED
        self._pictures += 1

    def _encoding(self, height: int, width: int) -> subprocess.Popen:
        """Starts ffmpeg, which waits for pictures."""
        source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}"]
        source += ["-r", f"{self._rate:g}", "-i", "-"]
        # A GIF is made from this at the end and must not lose colours twice.
        codec = (
            ["-c:v", "libx264rgb", "-pix_fmt", "rgb24", "-crf", "0", "-preset", "ultrafast"]
            if self._gif
            else ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "20"]
        )
        command = _command(*source, *codec, "-movflags", "+faststart", self._raw)
        return subprocess.Popen(command, stdin=subprocess.PIPE)

    def _finish(self) -> None:
        if not self._gif:
            os.replace(self._raw, self._path)
            return
        palette, gif = temporary(self._path, ".png"), temporary(self._path, ".gif")
        rate = f"fps={min(self._rate, GIF_PICTURES_PER_SECOND):g}"
        try:
            colours = f"{rate},palettegen=max_colors={GIF_COLOURS}"
            # One picture by its name as it is: % in it would be a pattern of numbers.
            _ffmpeg("-i", self._raw, "-vf", colours, "-update", 1, palette)
            one = ["-f", "image2", "-pattern_type", "none", "-i", palette]
            use = f"{rate}[x];[x][1:v]paletteuse=dither=none:diff_mode=rectangle"
            _ffmpeg("-i", self._raw, *one, "-lavfi", use, gif)
            os.replace(gif, self._path)
        finally:
            palette.unlink(missing_ok=True)
            gif.unlink(missing_ok=True)


def temporary(path: Path, suffix: str) -> Path:
    """A name beside the path, for what gets its name later."""
    return path.with_name(f".{path.stem}.{os.getpid()}{suffix}")


def _command(*arguments: Any) -> list[str]:
    executable = imageio_ffmpeg.get_ffmpeg_exe()
    return [executable, "-y", "-loglevel", "error", *map(str, arguments)]


def _ffmpeg(*arguments: Any) -> None:
    subprocess.run(_command(*arguments), check=True, stdin=subprocess.DEVNULL)
