"""Predicts the pose of the arm from a picture: directly, and by points and geometry."""

import io
import zipfile
from pathlib import Path

import numpy as np
import sonnet as snt
import tensorflow as tf

from sandbox.arm import geometry
from trainer.storage.records import write_whole
from user_error import UserError

SIZE = 96  # pictures are resized to it
CHANNELS = (16, 32, 64, 128)
WIDTH = 256
BATCH = 128
LEARNING_RATE = 1e-3
NOISE = 8.0  # grey levels
TELL_EVERY = 200


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


def train(images: np.ndarray, poses: np.ndarray, updates: int, seed: int) -> PoseNetwork:
    """A network that was trained with pictures [N, SIZE, SIZE, 3] and their poses."""
    tf.random.set_seed(seed)
    network, random = built(), np.random.default_rng(seed)
    numbers = geometry.encoded(poses).astype(np.float32)
    places = geometry.points(poses).reshape(len(poses), -1).astype(np.float32)
    optimizer = snt.optimizers.Adam(tf.Variable(0.0))

    @tf.function
    def update(pictures: tf.Tensor, wanted: tf.Tensor, seen: tf.Tensor) -> tf.Tensor:
        noisy = tf.cast(pictures, tf.float32) + tf.random.normal(tf.shape(pictures), 0, NOISE)
        with tf.GradientTape() as tape:
            guessed, pointed = network(noisy)
            loss = tf.reduce_mean(tf.square(guessed - wanted))
            loss += tf.reduce_mean(tf.square(pointed - seen))
        weights = network.trainable_variables
        optimizer.apply(tape.gradient(loss, weights), weights)
        return loss

    losses = []
    for number in range(updates):
        rate = LEARNING_RATE * 0.5 * (1 + np.cos(np.pi * number / updates))
        optimizer.learning_rate.assign(rate)
        chosen = random.integers(len(images), size=BATCH)
        losses.append(float(update(images[chosen], numbers[chosen], places[chosen])))
        if (number + 1) % TELL_EVERY == 0 or number + 1 == updates:
            print(f"update {number + 1:,} of {updates:,}, loss {np.mean(losses):.5f}", flush=True)
            losses = []
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


def save(network: PoseNetwork, path: Path) -> None:
    """Writes the weights."""
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {f"{index:02d}": one.numpy() for index, one in enumerate(network.variables)}
    whole = io.BytesIO()
    np.savez(whole, **arrays)
    write_whole(path, whole.getvalue())


def load(path: Path) -> PoseNetwork:
    """The network whose weights ``save`` wrote."""
    network = built()
    try:
        with np.load(path) as kept:
            for variable, name in zip(network.variables, sorted(kept.files), strict=True):
                variable.assign(kept[name])
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise UserError(f"--network={path} cannot be read ({error}). Train one first.") from None
    return network
