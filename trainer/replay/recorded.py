"""Play on disk as the unrolls that a replay store takes."""

from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from algorithms.trajectory import EnvironmentStep, Episodes, Unroll
from trainer.storage.played import Part

# Streams of this process's actors have smaller numbers.
FIRST_STREAM = 2**30


def unrolls_of(parts: Sequence[Part], example: Unroll) -> Iterator[Unroll]:
    """Unrolls like ``example`` of all steps of these parts, oldest first.

    An agent's state before each is that of an episode's start. Rows that an unroll has too many
    are resets, from which nothing is learned.
    """
    length, number = len(example.action) - 1, 0
    for part in parts:
        for start in range(0, len(part.first) - 1, length):
            yield _unroll(part, start, number, example)
            number += 1
        number += 1  # the next part does not go on from this one


def _unroll(part: Part, start: int, number: int, example: Unroll) -> Unroll:
    rows, games = len(example.action), part.first.shape[1]
    there = min(rows, len(part.first) - start)

    def cut(array: np.ndarray) -> np.ndarray:
        piece = array[start : start + there]
        return np.concatenate([piece, np.repeat(piece[-1:], rows - there, axis=0)])

    first, reward, terminated = cut(part.first), cut(part.reward), cut(part.terminated)
    first[there:], reward[there:], terminated[there:] = True, 0.0, False
    nothing = np.zeros([rows, games], np.float32)
    return Unroll(
        environment=EnvironmentStep(cut(part.frames), reward, terminated, first),
        action=cut(part.action),
        recorded=dict.fromkeys(example.recorded, nothing),
        initial_state=tf.nest.map_structure(
            lambda state: np.repeat(np.asarray(state), games, axis=0), example.initial_state
        ),
        episodes=Episodes(nothing, nothing.astype(np.int32)),
        level=np.zeros([games], np.int32),
        stream=FIRST_STREAM + np.arange(games, dtype=np.int32),
        number=np.full([games], number, np.int32),
        weights_version=np.zeros([games], np.float32),
    )
