"""Batches of unrolls that were all played with the learner's newest weights.

Each time when weights are published, every actor plays one block and waits. If these blocks do not
fill a batch, the same weights are published again under a new number.
"""

import collections
import threading
from collections.abc import Callable
from typing import Protocol

import numpy as np
import tensorflow as tf

from algorithms.trajectory import Unroll
from trainer.learning.batches import UNTIMED, Batch, cut, describe, join, unrolls_in
from user_error import UserError

MOST_STEPS = 200_000  # that are played for one batch without the end of an episode


class Crew(Protocol):
    """The actors, as rollouts need them."""

    def present(self) -> int:
        """How many play."""

    def play_again(self, number: int) -> None:
        """Publishes the same weights under a new number."""


class Rollouts:
    """Collects one batch for each time that ``begin`` is called."""

    def __init__(self, size: int, crew: Crew, say: Callable[[str], None] = lambda text: None):
        self._size = size
        self._crew = crew
        self._say = say
        self._lock = threading.Lock()
        self._number = 0  # of the weights published last
        self._first: float = np.inf  # the first number of these weights; none while learning
        self._updates = 0
        self._blocks: list[Unroll] = []
        self._delivered = 0  # blocks since the last publication
        self._warned = False

    def begin(self, updates: int) -> int:
        """Starts the next batch; returns the number under which to publish its weights."""
        with self._lock:
            # Beyond the updates, so that no number is used again after a resume: actors seed by it.
            self._number = max(self._number, updates) + 1
            self._first, self._updates = self._number, updates
            self._blocks, self._delivered = [], 0
            return self._number

    def next(self, take: Callable[[], Unroll | None]) -> Batch | None:
        """The next batch, filled with blocks from ``take``; None if ``take`` returns None."""
        while not self._is_full():
            self._ask_again()
            block = take()
            if block is None:
                return None
            self._add(block)
        with self._lock:
            if not self._blocks:  # newer weights have been published in between
                return None
            blocks, self._blocks, self._first = self._blocks, [], np.inf
            self._delivered = 0  # for the next batch, nobody is to play before new weights
            updates = float(self._updates)
        return self._batch(blocks)._replace(weights_version=updates)

    def _add(self, block: Unroll) -> None:
        """Keeps a block unless it was played with other weights."""
        with self._lock:
            if block.weights_version.min() >= self._first:
                self._blocks.append(block)
                self._delivered += 1

    def _is_full(self) -> bool:
        return sum(map(unrolls_in, self._blocks)) >= self._size

    def _all_delivered(self) -> bool:
        """Whether every actor has played a block since the last publication."""
        return 0 < self._delivered >= self._crew.present()

    def _ask_again(self) -> None:
        with self._lock:
            if not self._all_delivered():
                return
            self._number += 1
            self._delivered = 0
            number = self._number
        self._crew.play_again(number)

    def _batch(self, blocks: list[Unroll]) -> Batch:
        unrolls = join(blocks)
        surplus = unrolls_in(unrolls) - self._size
        if surplus and not self._warned:
            self._warned = True
            self._say(
                f"warning: actors play {unrolls_in(unrolls)} unrolls for batches of {self._size}; "
                f"{surplus} of them are thrown away. Choose --batch_size or --envs_per_actor so "
                "that one is a multiple of the other."
            )
        return describe(cut(unrolls, 0, self._size), self._size)


class WholeEpisodes(Rollouts):
    """The same for batches of ``size`` episodes that begin and end while actors play in step.

    The unrolls of an environment become one. Episodes that were under way when the weights changed
    are in it, too, for an LSTM's state; the algorithm leaves them out.
    """

    def _is_full(self) -> bool:
        if not self._all_delivered():
            return False
        # Each reset but an environment's first one shows that a whole episode is over.
        resets: collections.Counter[int] = collections.Counter()
        for block in self._blocks:
            first = block.environment.first
            # Several such rows in a row are of a wait for a reset, or of a body without a part.
            begun = (first[1:] & ~first[:-1]).sum(0)
            resets.update(dict(zip(block.stream, begun, strict=True)))
        whole = sum(max(0, int(count) - 1) for count in resets.values())
        steps = sum((len(block.action) - 1) * unrolls_in(block) for block in self._blocks)
        if not whole and steps > MOST_STEPS:
            raise UserError(
                f"no whole episode in {steps:,} steps: this algorithm learns from whole episodes. "
                "Choose another --algorithm for a level whose episodes are this long or never end."
            )
        return whole >= self._size

    def _batch(self, blocks: list[Unroll]) -> Batch:
        of_actor: list[list[Unroll]] = []
        for block in blocks:
            before = next((each for each in of_actor if _continues(each[-1], block)), None)
            if before is None:
                of_actor.append(before := [])
            before.append(block)
        longest = max(map(len, of_actor))
        # An actor that joined later, or was started again meanwhile, has fewer.
        whole = join([_in_a_row(each) for each in of_actor if len(each) == longest])
        return describe(whole, unrolls_in(whole))


def _continues(one: Unroll, other: Unroll) -> bool:
    """Whether an actor has played a block right after another: several may have one number."""
    same = (one.stream == other.stream).all() and (one.number + 1 == other.number).all()
    last, first = (
        tf.nest.map_structure(lambda array, row=row: array[row], block.environment)
        for block, row in ((one, -1), (other, 0))
    )
    pairs = zip(tf.nest.flatten(last), tf.nest.flatten(first), strict=True)
    return bool(same) and all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in pairs)


def _in_a_row(blocks: list[Unroll]) -> Unroll:
    """Consecutive blocks of an actor as one; each begins with the last row of the one before."""

    def joined(*arrays: np.ndarray) -> np.ndarray:
        return np.concatenate([arrays[0], *(array[1:] for array in arrays[1:])])

    fields = {
        name: values[0] if name in UNTIMED else tf.nest.map_structure(joined, *values)
        for name, *values in zip(Unroll._fields, *blocks, strict=True)
    }
    return Unroll(**fields)
