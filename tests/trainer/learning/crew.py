"""Actors that play in step, as rollouts see them."""

import collections

import numpy as np
import tensorflow as tf

from algorithms.trajectory import Unroll
from tests.trainer.levels import Steps, level
from tests.trainer.training import block, small
from trainer.learning import minibatches


class Crew:
    """Actors that play a block of their own size each time that weights are published."""

    def __init__(self, like: Unroll, sizes: list[int]):
        self.sizes = sizes
        self.repeats = 0
        self.numbers_streams = False  # from 0; otherwise all have the same
        self.last_first = False  # the last actor is the fastest
        self._like = like
        self._blocks: collections.deque[Unroll] = collections.deque()

    def present(self) -> int:
        return len(self.sizes)

    def play_again(self, number: int) -> None:
        self.repeats += 1
        self.play(number)

    def play(self, number: int) -> None:
        """Every actor plays a block with the weights of this number."""
        ends = np.cumsum(self.sizes)
        for size, end in list(zip(self.sizes, ends, strict=True))[:: -1 if self.last_first else 1]:
            version = np.full(size, number, np.float32)
            played = of_size(self._like, size)._replace(weights_version=version)
            if self.numbers_streams:
                played = played._replace(stream=np.arange(end - size, end))
            self._blocks.append(played)

    def take(self) -> Unroll | None:
        return self._blocks.popleft() if self._blocks else None


def of_size(like: Unroll, size: int) -> Unroll:
    """A block of ``size`` unrolls, all like the first."""
    indices = np.zeros(size, np.int64)
    pieces, _ = minibatches.chosen(like, (), indices)
    return tf.nest.map_structure(lambda tensor: tensor.numpy(), pieces)


LIKE = block(small(level(Steps)))
