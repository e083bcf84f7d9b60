"""Predicted pictures beside real ones."""

import io
from pathlib import Path
from typing import Any

import cv2
import imageio.v2 as imageio
import numpy as np

from trainer.storage.records import write_whole

GAP = 2
SMALLEST = 120  # pixels that a column is wide at least
FRAMES_PER_SECOND = 8


def coloured(picture: np.ndarray) -> np.ndarray:
    """[H, W, 3] of [H, W, C]; of several channels that are no colour, the last."""
    return picture if picture.shape[-1] == 3 else np.repeat(picture[..., -1:], 3, axis=-1)


def difference(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Grey where both are the same; brighter or darker where they differ."""
    return (128 + (one.astype(np.int16) - other) // 2).astype(np.uint8)


def columns(predicted: np.ndarray, real: np.ndarray, zoom: int = 0) -> np.ndarray:
    """Predicted, real and difference beside each other: [H', W', 3]; zoom 0: as is readable."""
    zoom = zoom or -(-SMALLEST // real.shape[1])
    parts = [coloured(one) for one in (predicted, real, difference(predicted, real))]
    large = [np.kron(one, np.ones([zoom, zoom, 1], np.uint8)) for one in parts]
    gap = np.full([large[0].shape[0], GAP, 3], 255, np.uint8)
    return np.concatenate([large[0], gap, large[1], gap, large[2]], axis=1)


def strip(predicted: np.ndarray, real: np.ndarray) -> np.ndarray:
    """A sequence [T, H, W, C] as three rows: real, predicted, difference."""
    rows = [real, predicted, difference(predicted, real)]
    drawn = [np.concatenate([coloured(one) for one in row], axis=1) for row in rows]
    picture = np.concatenate(drawn, axis=0)
    zoom = max(1, round(SMALLEST / 2 / real.shape[1]))
    return np.kron(picture, np.ones([zoom, zoom, 1], np.uint8))


def png(picture: np.ndarray) -> bytes:
    """The picture as a file's content."""
    return cv2.imencode(".png", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))[1].tobytes()


def write_video(path: Path, predicted: np.ndarray, real: np.ndarray) -> None:
    """An MP4 of a sequence [T, H, W, C], three columns; may raise OSError."""
    drawn = [columns(*pair) for pair in zip(predicted, real, strict=True)]
    write_whole(path, mp4(drawn, FRAMES_PER_SECOND))


def mp4(drawn: list[np.ndarray], fps: float) -> bytes:
    """Pictures as the content of a video's file."""
    height, width = (-(-side // 16) * 16 for side in drawn[0].shape[:2])
    buffer = io.BytesIO()
    writer: Any
    with imageio.get_writer(buffer, format="mp4", fps=fps, macro_block_size=1) as writer:
        for picture in drawn:
            canvas = np.zeros([height, width, 3], np.uint8)
            canvas[: picture.shape[0], : picture.shape[1]] = picture
            writer.append_data(canvas)
    return buffer.getvalue()
