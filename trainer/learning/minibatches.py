"""A rollout as the learner goes through it: pieces of its unrolls, several times, in any order."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from algorithms.trajectory import Unroll
from trainer.learning.batches import UNTIMED


def in_pieces(unrolls: Unroll, prepared: Any, states: Any, length: int) -> tuple[Unroll, Any]:
    """Unrolls [T + 1, B] as shorter ones [length + 1, pieces * B]; runs inside a graph.

    ``prepared`` is [T, B, ...] and is cut in the same way; ``states`` [pieces * B, ...] are the
    agent's before each piece.
    """
    rows, count = unrolls.action.shape[:2]
    starts = np.arange(0, rows - 1, length)

    def of_rows(rows: int) -> Any:
        indices = np.arange(rows)[:, np.newaxis] + starts

        def pieces(array: tf.Tensor) -> tf.Tensor:
            cut = tf.gather(array, indices)  # [rows, pieces, B, ...]
            return tf.reshape(cut, [rows, len(starts) * count, *array.shape[2:]])

        return pieces

    def of_unrolls(array: tf.Tensor) -> tf.Tensor:
        return tf.gather(array, np.tile(np.arange(count), len(starts)))

    cut = {
        name: tf.nest.map_structure(of_unrolls if name in UNTIMED else of_rows(length + 1), value)
        for name, value in unrolls._asdict().items()
        if name != "initial_state"
    }
    pieces = Unroll(initial_state=states, **cut)
    return pieces, tf.nest.map_structure(of_rows(length), prepared)


def chosen(unrolls: Unroll, prepared: Any, indices: tf.Tensor) -> tuple[Unroll, Any]:
    """Some of the unrolls; runs inside a graph."""

    def pick(axis: int) -> Any:
        return lambda array: tf.gather(array, indices, axis=axis)

    some = {
        name: tf.nest.map_structure(pick(0 if name in UNTIMED else 1), value)
        for name, value in unrolls._asdict().items()
    }
    return Unroll(**some), tf.nest.map_structure(pick(1), prepared)


def orders(count: int, epochs: int, minibatches: int, seed: int) -> Iterator[np.ndarray]:
    """The indices of each minibatch: every epoch goes through all unrolls in another order."""
    random = np.random.default_rng(seed)
    cuts = [count * index // minibatches for index in range(1, minibatches)]
    for _ in range(epochs):
        yield from np.split(random.permutation(count).astype(np.int32), cuts)
