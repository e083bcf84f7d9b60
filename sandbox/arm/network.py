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
CHANNELS = (16, 32, 64, 128)  # of layers that halve the picture
FINER = (32, 24)  # of those that double it again
SPOTS = 32
SUMMARY, WIDTH = 32, 256
ABOUT, SEEN = "about", "seen"  # beside the weights: how it was trained, checksums of pictures
OPTIMIZER = "optimizer."  # while its training has not ended


class Kept(NamedTuple):
    """What a file holds."""

    network: "PoseNetwork"
    about: dict[str, int]  # how it was trained; empty if the file does not say
    seen: np.ndarray  # checksums of the pictures that it was trained with
    optimizer: list[np.ndarray]  # its variables; none once the training has ended


class Answer(NamedTuple):
    """What the network makes of N pictures."""

    numbers: tf.Tensor  # [N, 11], see ``geometry.encoded``
    points: tf.Tensor  # [N, 2 * POINTS], of the arm
    spread: tf.Tensor  # [N, POINTS]: how widely each point was looked for, as a variance


class PoseNetwork(snt.Module):
    """Convolutions → spots → the pose's numbers and points of the arm.

    A spot is the middle of a map of the picture, wherever in it that is: what the network learns
    about a part of the arm in one place it knows in all others. The first spots are the arm's
    points, up to a correction for those that are hidden or outside; the others find their use.
    """

    def __init__(self) -> None:
        super().__init__(name="pose")
        self._coarser = [(snt.Conv2D(each, 3, 2), snt.Conv2D(each, 3)) for each in CHANNELS]
        self._finer = [snt.Conv2D(each, 3) for each in FINER]
        self._maps = snt.Conv2D(SPOTS, 1)
        self._summary = snt.Conv2D(SUMMARY, 1)
        self._hidden = snt.Linear(WIDTH)
        self._numbers = snt.Linear(11)
        self._correction = snt.Linear(2 * geometry.POINTS)

    def __call__(self, images: tf.Tensor) -> Answer:
        """Pictures [N, H, W, 3] have values from 0 to 255."""
        features, passed = images / 127.5 - 1.0, []
        for halving, layer in self._coarser:
            features = tf.nn.relu(layer(tf.nn.relu(halving(features))))
            passed.append(features)
        features = summary = tf.nn.relu(self._summary(passed.pop()))
        for layer in self._finer:
            doubled = tf.repeat(tf.repeat(features, 2, axis=1), 2, axis=2)
            features = tf.nn.relu(layer(tf.concat([doubled, passed.pop()], axis=-1)))
        places, spread = _spots(self._maps(features))
        places = tf.reshape(places, [len(images), 2 * SPOTS])
        all_of_it = tf.concat([tf.reshape(summary, [len(images), -1]), places], axis=1)
        hidden = tf.nn.relu(self._hidden(all_of_it))
        points = places[:, : 2 * geometry.POINTS] + self._correction(hidden)
        return Answer(self._numbers(hidden), points, spread[:, : geometry.POINTS])


def _spots(maps: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """[N, H, W, S] → where maps are bright: [N, S, 2] from -1 to 1, and the variances [N, S]."""
    height, width = maps.shape[1:3]
    shares = tf.nn.softmax(tf.reshape(maps, [-1, height * width, maps.shape[-1]]), axis=1)
    rows, columns = ((2 * np.arange(size) + 1) / size - 1 for size in (height, width))
    grid = np.stack([np.tile(columns, height), np.repeat(rows, width)], -1).astype(np.float32)
    places = tf.einsum("nps,pc->nsc", shares, grid)
    squares = tf.einsum("nps,p->ns", shares, np.sum(grid**2, axis=1))
    return places, squares - tf.reduce_sum(places**2, axis=-1)


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
    numbers, places, spread = (
        np.concatenate(part).astype(np.float64) for part in zip(*answers, strict=True)
    )
    direct = geometry.decoded(numbers)
    seen = places.reshape(len(places), -1, 2)
    return {"direct": direct, "geometry": geometry.fitted(direct, seen, spread)}


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
