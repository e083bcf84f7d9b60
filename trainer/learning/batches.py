"""Batches of a fixed number of unrolls, cut from the blocks that arrive."""

import collections
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from algorithms.feeding import FirstInFirstOut
from algorithms.trajectory import Unroll

# Waits for unrolls are interrupted this often to check whether to stop.
LOOK_EVERY_S = 0.2

# What Python takes for an array of one unroll, besides the numbers in it.
BYTES_OF_ARRAY = 200

UNTIMED = ("initial_state", "level", "stream", "number", "weights_version")


class Batch(NamedTuple):
    """The input of one update."""

    unrolls: Unroll
    steps: int  # new agent steps, without resets
    weights_version: float  # mean update count of the weights that chose their actions
    number: int = 0  # of a batch from a replay store
    computed: Any = None  # the contribution to the update and its samples, where actors compute it


class Batches:
    """Joins and cuts blocks along the unroll axis; leftover unrolls begin the next batch.

    Until there are enough earlier unrolls to replay, batches contain only new ones.
    """

    def __init__(self, feeding: FirstInFirstOut, size: int, seed: int = 0):
        self._fresh = feeding.fresh(size)
        self._replayed = size - self._fresh
        self._replay = Replay(feeding.capacity, seed) if feeding.replayed else None
        self._waiting: list[Unroll] = []

    def next(self, take: Callable[[], Unroll | None]) -> Batch | None:
        """The next batch, filled with blocks from ``take``.

        Returns None if ``take`` does; blocks taken until then are kept for the next call.
        """
        replays = self._replay is not None and self._replay.holds(self._replayed)
        fresh = self._fresh if replays else self._fresh + self._replayed
        while sum(map(unrolls_in, self._waiting)) < fresh:
            block = take()
            if block is None:
                return None
            self._waiting.append(block)
        parts, missing = [], fresh
        while missing:
            block = self._waiting.pop(0)
            used = min(unrolls_in(block), missing)
            if used < unrolls_in(block):
                self._waiting.insert(0, cut(block, used, unrolls_in(block)))
                block = cut(block, 0, used)
            parts.append(block)
            missing -= used
        # Drawn before the new ones are added, so that no new unroll is in the batch twice.
        repeated: list[Unroll] = []
        if self._replay is not None:
            repeated = self._replay.sample(self._replayed if replays else 0)
            for part in parts:
                self._replay.add(part)
        return describe(join(parts + repeated), fresh)


class Replay:
    """The newest ``capacity`` unrolls; ``sample`` draws uniformly, with replacement."""

    def __init__(self, capacity: int, seed: int):
        self._unrolls: collections.deque[Unroll] = collections.deque(maxlen=capacity)
        self._random = np.random.default_rng(seed)

    def add(self, block: Unroll) -> None:
        """Adds a block's unrolls; drops the oldest if it is full."""
        for index in range(unrolls_in(block)):
            self._unrolls.append(cut(block, index, index + 1))

    def holds(self, count: int) -> bool:
        """Whether there are ``count`` unrolls, or as many as fit."""
        return len(self._unrolls) >= min(count, self._unrolls.maxlen or count)

    def sample(self, count: int) -> list[Unroll]:
        """``count`` unrolls, each a block of its own."""
        picks = self._random.integers(len(self._unrolls), size=count)
        return [self._unrolls[pick] for pick in picks]


def bytes_needed(example: Unroll, capacity: int) -> int:
    """The memory that a ``Replay`` of unrolls like this one takes once it is full."""
    arrays = tf.nest.flatten(example)
    return capacity * sum(array.nbytes + BYTES_OF_ARRAY for array in arrays)


def describe(unrolls: Unroll, fresh: int) -> Batch:
    """The batch of these unrolls; the first ``fresh`` of them are new."""
    return Batch(unrolls, steps_in(unrolls, fresh), float(unrolls.weights_version[:fresh].mean()))


def unrolls_in(block: Unroll) -> int:
    """The number of unrolls in a block."""
    return block.level.shape[0]


def steps_in(block: Unroll, unrolls: int | None = None) -> int:
    """The number of agent steps in a block, or in its first ``unrolls``, without resets."""
    return int(np.count_nonzero(~block.environment.first[1:, :unrolls]))


def cut(block: Unroll, start: int, stop: int) -> Unroll:
    """The unrolls from ``start`` to ``stop`` of a block, as views."""
    return _by_axis(lambda array: array[:, start:stop], lambda array: array[start:stop], block)


def picked(block: Unroll, chosen: np.ndarray) -> Unroll:
    """The unrolls of these places in a block."""
    return _by_axis(lambda array: array[:, chosen], lambda array: array[chosen], block)


def join(parts: list[Unroll]) -> Unroll:
    """Joins blocks into one."""
    if len(parts) == 1:
        return parts[0]
    return _by_axis(
        lambda *arrays: np.concatenate(arrays, axis=1),
        lambda *arrays: np.concatenate(arrays, axis=0),
        *parts,
    )


def _by_axis(timed: Callable, untimed: Callable, *blocks: Unroll) -> Unroll:
    """Applies ``timed`` to arrays [T + 1, B, ...] and ``untimed`` to arrays [B, ...]."""
    return Unroll(
        **{
            name: tf.nest.map_structure(untimed if name in UNTIMED else timed, *values)
            for name, *values in zip(Unroll._fields, *blocks, strict=True)
        }
    )
