"""How far predicted poses are from the truth, as figures and as a picture."""

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from sandbox.arm import geometry
from trainer.storage.records import write_whole

SHOWN, ACROSS, SCALE = 12, 4, 4
TRUE, PREDICTED = (90, 220, 90), (250, 90, 60)
LINES = ((4, 6), (6, 7))  # shoulder, elbow, tip among the points


def errors(poses: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """[N, 6]: of the distance its share, of angles degrees."""
    away = np.abs(poses - truth)
    away[:, 1:] = np.degrees(np.minimum(away[:, 1:], 2 * np.pi - away[:, 1:]))
    away[:, 0] /= truth[:, 0]
    return away


def figures(predicted: dict[str, np.ndarray], truth: np.ndarray) -> dict[str, Any]:
    """Median and 90th percentile of each error, for each method."""
    return {
        method: {
            name: {
                "median": float(np.median(column)),
                "percentile_90": float(np.percentile(column, 90)),
            }
            for name, column in zip(geometry.NAMES, errors(poses, truth).T, strict=True)
        }
        for method, poses in predicted.items()
    }


def table(found: dict[str, Any]) -> str:
    """The figures as text."""
    lines = [
        f"{'median / 90th percentile':<26}" + "".join(f"{name:>16}" for name in geometry.NAMES)
    ]
    for method, row in found.items():
        cells = []
        for name in geometry.NAMES:
            scale, unit = (100, "%") if name == "distance" else (1, "°")
            pair = (scale * row[name][kind] for kind in ("median", "percentile_90"))
            cells.append("{:.1f} / {:.1f} ".format(*pair) + unit)
        lines.append(f"{method:<26}" + "".join(f"{cell:>16}" for cell in cells))
    return "\n".join(lines)


def write(folder: Path, found: dict[str, Any], about: dict[str, Any]) -> None:
    """Writes evaluation.json; may raise OSError."""
    text = json.dumps(about | {"errors": found}, indent=2) + "\n"
    write_whole(folder / "evaluation.json", text.encode())


def draw(path: Path, images: np.ndarray, poses: np.ndarray, truth: np.ndarray) -> None:
    """Writes pictures with the true arm in green and the predicted one in red; as ``write``."""
    tiles = []
    for image, pose, real in zip(images[:SHOWN], poses, truth, strict=False):
        large = cv2.resize(image, None, fx=SCALE, fy=SCALE, interpolation=cv2.INTER_CUBIC)
        for one, colour in ((real, TRUE), (pose, PREDICTED)):
            places = (geometry.points(one) + 1) / 2 * len(large)
            for start, end in LINES:
                first, last = (places[index].astype(int).tolist() for index in (start, end))
                cv2.line(large, first, last, colour, 2, cv2.LINE_AA)
        tiles.append(large)
    across = min(ACROSS, len(tiles))
    whole = len(tiles) // across * across
    rows = [np.hstack(tiles[start : start + across]) for start in range(0, whole, across)]
    write_whole(path, cv2.imencode(".png", np.vstack(rows)[:, :, ::-1])[1].tobytes())
