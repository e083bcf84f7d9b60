"""A rollout as the learner goes through it: pieces of its unrolls, several times, in any order."""

import dataclasses
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import tensorflow as tf

from agents import gather
from algorithms.feeding import Feeding, InStep
from algorithms.trajectory import Unroll
from trainer.learning.batches import UNTIMED
from trainer.settings import sizes


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
            cut = gather(array, indices)  # [rows, pieces, B, ...]
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
        return lambda array: gather(array, indices, axis=axis)

    some = {
        name: tf.nest.map_structure(pick(0 if name in UNTIMED else 1), value)
        for name, value in unrolls._asdict().items()
    }
    return Unroll(**some), tf.nest.map_structure(pick(1), prepared)


@dataclasses.dataclass(frozen=True)
class Passes:
    """How a learner goes through what it is given at once; the same for all of a team."""

    epochs: int
    minibatches: int  # of an epoch
    piece_length: int  # steps that stay together; 0: whole unrolls
    pieces: int  # in all
    seed: int = 0
    drawn: bool = False  # from a replay store: in order, each minibatch is prepared by itself

    @classmethod
    def of(cls, feeding: InStep, unroll_length: int, unrolls: int, whole: bool, seed: int) -> Self:
        """For rollouts of so many unrolls, which agents with an LSTM need as a ``whole``."""
        length = 0 if whole else sizes.piece_length(feeding, unroll_length)
        pieces = unrolls * (unroll_length // length if length else 1)
        minibatches = min(feeding.minibatches, pieces)
        return cls(feeding.epochs, minibatches, length, pieces, seed)

    def remark(self, feeding: Feeding) -> str:
        """What to say where there are fewer minibatches than chosen; empty otherwise."""
        if not isinstance(feeding, InStep) or self.minibatches == feeding.minibatches:
            return ""
        pieces, larger = "whole unrolls (agents with an LSTM, --piece_length)", "--batch_size"
        if self.piece_length:
            pieces, larger = "pieces (--piece_length)", "--batch_size or --unroll_length"
        return (
            f"warning: a rollout is learned from in {self.minibatches} minibatches, not "
            f"{feeding.minibatches} (--minibatches): it has only {self.pieces} {pieces}. A larger "
            f"{larger} gives it more."
        )

    @property
    def are_alike(self) -> bool:
        """Whether there are several minibatches, all of one size."""
        return self.epochs * self.minibatches > 1 and self.pieces % self.minibatches == 0

    def orders(self, count: int, updates: int) -> Iterator[np.ndarray]:
        """The indices of each minibatch of ``count`` pieces; every epoch has another order."""
        random = np.random.default_rng(self.seed + updates)
        cuts = [count * index // self.minibatches for index in range(1, self.minibatches)]
        for _ in range(self.epochs):
            order = np.arange(count) if self.drawn else random.permutation(count)
            yield from np.split(order.astype(np.int32), cuts)
