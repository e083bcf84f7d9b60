"""Batches of unrolls that were all played with the learner's newest weights.

Each time when weights are published, every actor plays one block and waits. If these blocks do not
fill a batch, the same weights are published again under a new number.
"""

import collections
import threading
import time
from collections.abc import Callable
from typing import Protocol

import numpy as np

from algorithms.trajectory import Unroll
from trainer.learning.batches import Batch, describe, join, picked, unrolls_in

# Actors are waited for three times as long as the others have played, and at least so long.
PATIENCE, LEAST_PATIENCE_S = 3.0, 10.0


class Crew(Protocol):
    """The actors, as rollouts need them."""

    def present(self) -> int:
        """How many play."""

    def play_again(self, number: int) -> None:
        """Publishes the same weights under a new number; nobody can ``begin`` meanwhile."""


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
        self._delivered = 0  # blocks with the weights published last
        self._present = 0  # actors, when they were last counted ...
        self._expected = 0  # ... and how many of them are waited for
        self._complete = 0  # the number of the last round of blocks that was waited for to the end
        self._asked = self._came = time.monotonic()  # when for a block, and the last one's arrival
        self._turn = 0  # the first of the unrolls to be taken where there are too many
        self._said: set[str] = set()

    def begin(self, updates: int) -> int:
        """Starts the next batch; returns the number under which to publish its weights."""
        with self._lock:
            # Beyond the updates, so that no number is used again after a resume: actors seed by it.
            self._number = max(self._number, updates) + 1
            self._first, self._updates = self._number, updates
            self._blocks, self._delivered = [], 0
            self._asked = time.monotonic()
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
            self._complete = self._number
            self._delivered = 0  # for the next batch, nobody is to play before new weights
            updates = float(self._updates)  # `_add` keeps nothing of older weights
        return self._batch(blocks)._replace(weights_version=updates)

    def _add(self, block: Unroll) -> None:
        """Keeps a block unless some of it was played with other weights.

        Those of an earlier process of this learner, killed after its last checkpoint, may have a
        higher number than any of this one.
        """
        oldest, newest = block.weights_version.min(), block.weights_version.max()
        with self._lock:
            if oldest <= self._complete:
                self._expected += 1  # one that was not waited for plays, after all
            if self._first <= oldest and newest <= self._number:
                self._blocks.append(block)
                self._delivered += int(oldest == self._number)
                self._came = time.monotonic()

    def _is_full(self) -> bool:
        # Also of those who are slow: where steps take longer, another level may be played.
        return self._all_delivered() and sum(map(unrolls_in, self._blocks)) >= self._size

    def _all_delivered(self) -> bool:
        """Whether all that are waited for have played with the weights published last.

        One that is too late once is not waited for until it plays again: a game that hangs must
        not stop the others in each round.
        """
        delivered, expected = self._delivered, self._waited_for()
        if not 0 < delivered < expected:
            return delivered > 0
        patience = max(LEAST_PATIENCE_S, PATIENCE * (self._came - self._asked))
        is_late = time.monotonic() - self._came > patience
        if is_late:
            self._expected = delivered
            self._warn(
                "late",
                f"{self._present - delivered} of {self._present} actors have not played with the "
                f"newest weights, {patience:.0f} s after the others: these go on, and wait for "
                "them again once they play.",
            )
        return is_late

    def _waited_for(self) -> int:
        """How many actors are waited for: all that are there, new ones too, but late ones."""
        before, self._present = self._present, self._crew.present()
        joined = max(0, self._present - before)
        self._expected = min(self._expected + joined, self._present)
        return self._expected

    def _warn(self, about: str, text: str) -> None:
        """Says something once."""
        if about not in self._said:
            self._said.add(about)
            self._say(f"warning: {text}")

    def _ask_again(self) -> None:
        with self._lock:
            if not self._all_delivered():
                return
            self._complete = self._number
            self._number += 1
            self._delivered = 0
            self._asked = time.monotonic()
            # Not beyond the lock, where newer weights may be published in between.
            self._crew.play_again(self._number)

    def _batch(self, blocks: list[Unroll]) -> Batch:
        unrolls = join(blocks)
        played = unrolls_in(unrolls)
        if played > self._size:
            unrolls = self._in_turn(unrolls, played)
        return describe(unrolls, self._size)

    def _in_turn(self, unrolls: Unroll, played: int) -> Unroll:
        """As many as fill a batch; of the last round, each environment has its turn."""
        self._warn(
            "surplus",
            f"actors play {played} unrolls for batches of {self._size}; {played - self._size} of "
            "them are thrown away. Set --batch_size (of each learner) to the number of "
            "environments that play for it, or to a multiple, by --envs_per_actor.",
        )
        rounds: collections.Counter[int] = collections.Counter()
        round_of = np.zeros(played, int)
        for index, stream in enumerate(unrolls.stream.tolist()):
            round_of[index] = rounds[stream]
            rounds[stream] += 1
        order = np.lexsort((unrolls.stream, round_of))
        last = round_of[order[self._size]]
        whole, of_last = order[round_of[order] < last], order[round_of[order] == last]
        missing = self._size - len(whole)
        chosen = of_last[(self._turn + np.arange(missing)) % len(of_last)]
        self._turn += missing
        return picked(unrolls, np.concatenate([whole, chosen]))
