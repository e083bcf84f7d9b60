"""What is drawn in a picture file."""

from pathlib import Path

import cv2
import numpy as np


def coloured(path: Path) -> float:
    """The part of a picture's pixels that are neither white, grey nor black, as axes are."""
    picture = cv2.imread(str(path))
    assert picture is not None, f"{path} is no picture"
    return float(np.mean(np.ptp(picture.astype(int), axis=-1) > 30))


def frames(path: Path | str) -> np.ndarray:
    """The pictures of a video, RGB; none of one whose end is still being written.

    OpenCV reads it in this process. imageio forks it for ffmpeg, and once had no answer from that;
    presumably for the threads of TensorFlow here.
    """
    video = cv2.VideoCapture(str(path))
    found = []
    while (read := video.read())[0]:
        found.append(cv2.cvtColor(read[1], cv2.COLOR_BGR2RGB))
    video.release()
    return np.array(found)


def pictures_per_second(path: Path | str) -> float:
    """The rate of a video."""
    video = cv2.VideoCapture(str(path))
    rate = video.get(cv2.CAP_PROP_FPS)
    video.release()
    return float(rate)
