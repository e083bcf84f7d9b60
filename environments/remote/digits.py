"""Reads a number from a picture, by ten pictures of its digits."""

from pathlib import Path

import cv2
import numpy as np

from environments.realtime.game_file import Box
from user_error import UserError

# Of the pixels of a digit, at its own size; more are another sign.
MOST_DIFFERENT = 0.2


class Digits:
    """Finds digits of one font in one part of a picture."""

    def __init__(self, box: Box, path: Path) -> None:
        """`path` is a picture of 0123456789 as the game draws them, with gaps between."""
        picture = cv2.imread(str(path), cv2.IMREAD_COLOR)
        glyphs = [] if picture is None else _glyphs(picture[:, :, ::-1])
        if len(glyphs) != 10:
            raise UserError(
                f"{path}: expected a picture of the ten digits 0123456789 side by side, with gaps "
                f"between them; found {len(glyphs)} signs."
            )
        self._glyphs = glyphs
        self._box = box

    def __call__(self, picture: np.ndarray) -> float | None:
        """The number in a picture uint8 [height, width, 3]; None if there is none to be read."""
        box = self._box
        part = picture[box.top : box.top + box.height, box.left : box.left + box.width]
        text = [self._digit(glyph) for glyph in _glyphs(part)]
        if not text or None in text:
            return None
        return float("".join(map(str, text)))

    def _digit(self, glyph: np.ndarray) -> int | None:
        different = [_different(glyph, one) for one in self._glyphs]
        best = int(np.argmin(different))
        return best if different[best] <= MOST_DIFFERENT else None


def _glyphs(picture: np.ndarray) -> list[np.ndarray]:
    """The signs of a line of text, bool [height, width] each, from left to right."""
    grey = picture.astype(np.int32).sum(axis=2)
    # The commonest brightness is that of the background.
    background = np.bincount(grey.ravel()).argmax()
    difference = np.abs(grey - background)
    ink = difference > max(60, difference.max() // 2)
    columns = ink.any(axis=0).astype(np.int8)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], columns, [0]])))
    found = []
    for left, right in edges.reshape(-1, 2):
        rows = np.flatnonzero(ink[:, left:right].any(axis=1))
        found.append(ink[rows[0] : rows[-1] + 1, left:right])
    return found


def _different(glyph: np.ndarray, other: np.ndarray) -> float:
    """The share of pixels in which two signs differ; 1 for other sizes."""
    sizes = zip(glyph.shape, other.shape, strict=True)
    if any(abs(one - two) > max(1, two // 6) for one, two in sizes):
        return 1.0
    size = (other.shape[1], other.shape[0])
    same = cv2.resize(glyph.astype(np.uint8), size, interpolation=cv2.INTER_NEAREST)
    return float(np.mean(same.astype(bool) != other))
