"""Trains a network with pictures and their poses, and goes on with a training that has stopped."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import sonnet as snt
import tensorflow as tf

from sandbox.arm import geometry
from sandbox.arm.network import Kept, PoseNetwork, built, load
from user_error import UserError

BATCH = 128
LEARNING_RATE = 1e-3
NOISE = 8.0  # grey levels
TELL_EVERY = KEEP_EVERY = 200
# Gets the network, what the optimizer remembers (nothing at the end), and the number of updates.
Keep = Callable[[PoseNetwork, Sequence[tf.Variable], int], None]


def begun(path: Path, updates: int, seed: int, seen: np.ndarray) -> Kept | None:
    """What such a training has kept there, or None; a ``UserError`` if it was another."""
    if not path.exists():
        return None
    kept = load(path)
    was = kept.about.get("of"), kept.about.get("seed")
    if None in was:
        raise UserError(
            f"--network={path} does not say how its training would go on. Give another --network."
        )
    if was != (updates, seed):
        raise UserError(
            f"--network={path}: its training has --updates={was[0]} --seed={was[1]}. Give these to "
            "go on with it, or another --network."
        )
    if not np.array_equal(kept.seen, seen):
        raise UserError(
            f"--network={path} was trained with other pictures. Give their --data to go on with "
            "it, or another --network."
        )
    return kept


def train(
    images: np.ndarray,
    poses: np.ndarray,
    updates: int,
    seed: int,
    keep: Keep,
    kept: Kept | None = None,
) -> None:
    """Trains a network with pictures [N, SIZE, SIZE, 3] and their poses, or goes on with one.

    ``keep`` is called after every ``KEEP_EVERY`` updates and at the end.
    """
    tf.random.set_seed(seed)
    network, random = kept.network if kept else built(), np.random.default_rng(seed)
    numbers = geometry.encoded(poses).astype(np.float32)
    places = geometry.points(poses).reshape(len(poses), -1).astype(np.float32)
    optimizer = _optimizer(network, kept)

    @tf.function
    def update(pictures: tf.Tensor, wanted: tf.Tensor, seen: tf.Tensor) -> tf.Tensor:
        noisy = tf.cast(pictures, tf.float32) + tf.random.normal(tf.shape(pictures), 0, NOISE)
        with tf.GradientTape() as tape:
            found = network(noisy)
            loss = tf.reduce_mean(tf.square(found.numbers - wanted))
            loss += tf.reduce_mean(tf.square(found.points - seen))
        weights = network.trainable_variables
        optimizer.apply(tape.gradient(loss, weights), weights)
        return loss

    losses = []
    done = kept.about["updates"] if kept else 0
    for number in range(updates):
        chosen = random.integers(len(images), size=BATCH)  # also of updates that are done
        if number < done:
            continue
        rate = LEARNING_RATE * 0.5 * (1 + np.cos(np.pi * number / updates))
        optimizer.learning_rate.assign(rate)
        losses.append(float(update(images[chosen], numbers[chosen], places[chosen])))
        is_last = number + 1 == updates
        if (number + 1) % TELL_EVERY == 0 or is_last:
            print(f"update {number + 1:,} of {updates:,}, loss {np.mean(losses):.5f}", flush=True)
            losses = []
        if (number + 1) % KEEP_EVERY == 0 or is_last:
            keep(network, () if is_last else optimizer.variables, number + 1)


def _optimizer(network: PoseNetwork, kept: Kept | None) -> snt.optimizers.Adam:
    optimizer = snt.optimizers.Adam(tf.Variable(0.0))
    optimizer._initialize(network.trainable_variables)  # its variables come with the first update
    if kept:
        for variable, array in zip(optimizer.variables, kept.optimizer, strict=True):
            variable.assign(array)
    return optimizer
