"""Predicts the pose of the arm from a picture: directly, and by points and geometry."""

import errno
import io
import json
import os
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sonnet as snt
import tensorflow as tf

from sandbox.arm import geometry
from trainer.storage.records import write_whole
from user_error import UserError

SIZE = 96  # pictures are resized to it
CHANNELS = (16, 32, 64, 128)
WIDTH = 256
ABOUT, SEEN = "about", "seen"  # beside the weights: how it was trained, checksums of pictures
OPTIMIZER = "optimizer."  # while its training has not ended


class Kept(NamedTuple):
    """What a file holds."""

    network: "PoseNetwork"
    about: dict[str, int]  # how it was trained; empty if the file does not say
    seen: np.ndarray  # checksums of the pictures that it was trained with
    optimizer: list[np.ndarray]  # its variables; none once the training has ended


class PoseNetwork(snt.Module):
    """Convolutions → the pose's numbers (see ``geometry.encoded``) and points of the arm."""

    def __init__(self) -> None:
        super().__init__(name="pose")
        self._layers = [
            layer
            for channels in CHANNELS
            for layer in (snt.Conv2D(channels, 3, 2), snt.Conv2D(channels, 3))
        ]
        self._hidden = snt.Linear(WIDTH)
        self._numbers = snt.Linear(11)
        self._points = snt.Linear(2 * geometry.POINTS)

    def __call__(self, images: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """[N, H, W, 3] from 0 to 255 → [N, 11], [N, 2 * POINTS]."""
        features = images / 127.5 - 1.0
        for layer in self._layers:
            features = tf.nn.relu(layer(features))
        features = tf.nn.relu(self._hidden(tf.reshape(features, [len(images), -1])))
        return self._numbers(features), self._points(features)


def built() -> PoseNetwork:
    """A network with its variables."""
    network = PoseNetwork()
    network(tf.zeros([1, SIZE, SIZE, 3]))
    return network


def predict(network: PoseNetwork, images: np.ndarray) -> dict[str, np.ndarray]:
    """Poses [N, 6] of pictures [N, SIZE, SIZE, 3] by each method."""
    call = tf.function(network)
    answers = [
        [part.numpy() for part in call(tf.cast(images[start : start + 500], tf.float32))]
        for start in range(0, len(images), 500)
    ]
    numbers, places = (
        np.concatenate(part).astype(np.float64) for part in zip(*answers, strict=True)
    )
    direct = geometry.decoded(numbers)
    seen = places.reshape(len(places), -1, 2)
    return {"direct": direct, "geometry": geometry.fitted(direct, seen)}


def check_place(path: Path) -> None:
    """Makes the folder in which ``save`` will write; an ``OSError`` if it could not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    with tempfile.TemporaryFile(dir=path.parent):
        pass


def save(
    network: PoseNetwork,
    path: Path,
    about: dict[str, int],
    seen: np.ndarray,
    optimizer: Sequence[tf.Variable] = (),
) -> None:
    """Writes the weights, how they were trained, and what goes on with that, as one file."""
    arrays: dict[str, Any] = {ABOUT: np.array(json.dumps(about)), SEEN: seen}
    for prefix, variables in (("", network.variables), (OPTIMIZER, optimizer)):
        arrays |= {f"{prefix}{index:02d}": one.numpy() for index, one in enumerate(variables)}
    whole = io.BytesIO()
    np.savez(whole, **arrays)
    write_whole(path, whole.getvalue())


def load(path: Path) -> Kept:
    """What ``save`` wrote; files of weights alone say nothing of how they were trained."""
    network = built()
    try:
        loaded = np.load(path)
        if isinstance(loaded, np.ndarray):
            raise ValueError("it holds one array and no names")
        with loaded as kept:
            names = sorted({*kept.files} - {ABOUT, SEEN})
            optimizer = [kept[name] for name in names if name.startswith(OPTIMIZER)]
            weights = [kept[name] for name in names if not name.startswith(OPTIMIZER)]
            for variable, array in zip(network.variables, weights, strict=True):
                variable.assign(array)
            about = json.loads(str(kept[ABOUT])) if ABOUT in kept else {}
            seen = kept[SEEN] if SEEN in kept else np.array([], str)
            return Kept(network, about, seen, optimizer)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise UserError(f"--network={path} cannot be read ({error}). Train one first.") from None
