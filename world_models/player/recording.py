"""What was played by hand, kept: a video, and the steps as real play to learn from."""

import json
import time
from pathlib import Path

import numpy as np

from trainer.storage.records import write_whole
from world_models.player.session import Session
from world_models.training import pictures
from world_models.training.experience import Part, Stored, store
from world_models.training.folders import writing


def write_video(session: Session, folder: Path, fps: float) -> Path:
    """Writes what was shown, and sums and steps beside it; returns the video's path."""
    path = folder / f"{time.strftime('%Y%m%d-%H%M%S')}.mp4"
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, pictures.mp4(session.drawn, fps))
        played = {
            "actions": [action for _, action in session.rows],
            "rewards": [float(row.reward[0]) for row, _ in session.rows],
            "first": [bool(row.first[0]) for row, _ in session.rows],
        }
        write_whole(path.with_suffix(".json"), json.dumps(played).encode() + b"\n")
    return path


def store_steps(session: Session, folder: Path, level_name: str) -> Path | None:
    """Adds the real steps to the play in this folder; returns the file, None without a step."""
    observation, reward, terminated, first = (
        np.stack([row[n] for row, _ in session.rows]) for n in range(4)
    )
    action = np.array([[action] for _, action in session.rows], np.int32)
    part = Part(observation, action, reward, terminated, first)
    if not part.steps:
        return None
    returns, lengths = _episodes(part)
    about = {"level_name": level_name, "epoch": 0, "by": "a person"}
    return store(folder, Stored(part, about | {"returns": returns, "lengths": lengths}))


def _episodes(part: Part) -> tuple[list[float], list[int]]:
    """Returns and lengths of the episodes that ended."""
    returns, lengths, total, length = [], [], 0.0, 0
    for reward, terminated, first in zip(
        part.reward[:, 0], part.terminated[:, 0], part.first[:, 0], strict=True
    ):
        total, length = (0.0, 0) if first else (total + float(reward), length + 1)
        if terminated:
            returns.append(total)
            lengths.append(length)
    return returns, lengths
