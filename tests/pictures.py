"""What is drawn in a picture file."""

from pathlib import Path

import cv2
import numpy as np


def coloured(path: Path) -> float:
    """The part of a picture's pixels that are neither white, grey nor black, as axes are."""
    picture = cv2.imread(str(path))
    assert picture is not None, f"{path} is no picture"
    return float(np.mean(np.ptp(picture.astype(int), axis=-1) > 30))
