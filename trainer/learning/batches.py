"""Batches of a fixed number of unrolls, cut from the blocks that arrive."""

import collections
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from algorithms.feeding import FirstInFirstOut
from algorithms.trajectory import Unroll

# How long a wait for unrolls lasts before the one who waits looks whether it is to stop.
LOOK_EVERY_S = 0.2

UNTIMED = ("initial_state", "level", "weights_version")


class Batch(NamedTuple):
    """What one update is made of."""

    unrolls: Unroll
    steps: int  # new agent steps
    weights_version: float  # mean update count of the weights that chose their actions


class Batches:
    """Joins and cuts blocks along the unroll axis; what is left over begins the next batch."""

    def __init__(self, feeding: FirstInFirstOut, size: int, seed: int = 0):
        self._fresh = feeding.fresh(size)
        self._replayed = size - self._fresh
        self._replay = Replay(feeding.capacity, seed) if feeding.replayed else None
        self._waiting: list[Unroll] = []

    def next(self, take: Callable[[], Unroll | None]) -> Batch | None:
        """A batch; ``take`` gives further blocks until it is full.

        None once ``take`` gives None; what came until then is kept for the next call.
        """
        while sum(map(unrolls_in, self._waiting)) < self._fresh:
            block = take()
            if block is None:
                return None
            self._waiting.append(block)
        parts, missing = [], self._fresh
        while missing:
            block = self._waiting.pop(0)
            used = min(unrolls_in(block), missing)
            if used < unrolls_in(block):
                self._waiting.insert(0, cut(block, used, unrolls_in(block)))
                block = cut(block, 0, used)
            parts.append(block)
            missing -= used
        repeated: list[Unroll] = []
        if self._replay:
            for part in parts:
                self._replay.add(part)
            repeated = self._replay.sample(self._replayed)
        return describe(join(parts + repeated), self._fresh)


class Replay:
    """The newest ``capacity`` unrolls; ``sample`` draws from them evenly, with repetition."""

    def __init__(self, capacity: int, seed: int):
        self._unrolls: collections.deque[Unroll] = collections.deque(maxlen=capacity)
        self._random = np.random.default_rng(seed)

    def add(self, block: Unroll) -> None:
        """Keeps a block's unrolls; the oldest make room."""
        for index in range(unrolls_in(block)):
            self._unrolls.append(cut(block, index, index + 1))

    def sample(self, count: int) -> list[Unroll]:
        """``count`` unrolls, one a block."""
        picks = self._random.integers(len(self._unrolls), size=count)
        return [self._unrolls[pick] for pick in picks]


def describe(unrolls: Unroll, fresh: int) -> Batch:
    """The batch of these unrolls, the first ``fresh`` of which are new."""
    steps = fresh * (len(unrolls.action) - 1)
    return Batch(unrolls, steps, float(unrolls.weights_version[:fresh].mean()))


def unrolls_in(block: Unroll) -> int:
    """How many unrolls lie side by side in a block."""
    return block.level.shape[0]


def cut(block: Unroll, start: int, stop: int) -> Unroll:
    """The unrolls from ``start`` to ``stop`` of a block, as views."""
    return _by_axis(lambda array: array[:, start:stop], lambda array: array[start:stop], block)


def join(parts: list[Unroll]) -> Unroll:
    """Blocks side by side as one."""
    if len(parts) == 1:
        return parts[0]
    return _by_axis(
        lambda *arrays: np.concatenate(arrays, axis=1),
        lambda *arrays: np.concatenate(arrays, axis=0),
        *parts,
    )


def _by_axis(timed: Callable, untimed: Callable, *blocks: Unroll) -> Unroll:
    """``timed`` on what has shape [T + 1, B, ...], ``untimed`` on what has [B, ...]."""
    return Unroll(
        **{
            name: tf.nest.map_structure(untimed if name in UNTIMED else timed, *values)
            for name, *values in zip(Unroll._fields, *blocks, strict=True)
        }
    )
