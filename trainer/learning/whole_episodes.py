"""Batches of whole episodes that were all played with the learner's newest weights."""

import math
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from algorithms.trajectory import EnvironmentStep, Unroll, same_rows
from trainer.learning.batches import UNTIMED, Batch, describe, join, unrolls_in
from trainer.learning.rollouts import Crew, Rollouts
from user_error import UserError

MOST_STEPS = 200_000  # that are played for one batch without the end of an episode ...
LEAST_ROWS = 2_000  # ... if each environment has as many: of a thousand, none has played for long
MOST_ROWS = 60_000  # of one environment, for one more episode: two of Atari's longest games


class WholeEpisodes(Rollouts):
    """Collects batches of ``size`` episodes that begin and end while actors play in step.

    Every environment has the same number of them, so there may be a few more. Its unrolls become
    one. Episodes that were under way when the weights changed are in it, too, for an LSTM's state;
    the algorithm leaves them out.
    """

    def __init__(self, size: int, crew: Crew, say: Callable[[str], None] = lambda text: None):
        super().__init__(size, crew, say)
        self._sorted: list[Unroll] = []  # the blocks that are in ...
        self._of_each: list[list[Unroll]] = []  # ... the rows of blocks of each actor
        self._usual = 0  # whole episodes that every environment had in the last batch's first block

    def _is_full(self) -> bool:
        blocks = self._blocks  # others take their place when there are new weights
        if not blocks or not self._all_delivered():
            return False
        first = _firsts_of(self._actors(blocks))
        whole = _whole(first)
        if whole.size and whole.min() >= self._quota(first):
            return True
        waited = max(_waited(first)[whole < self._quota(first)], default=len(first) - 1)
        endless = len(first) > LEAST_ROWS and sum(map(_steps, blocks)) > MOST_STEPS
        if waited > MOST_ROWS or (endless and not whole.any()):
            raise UserError(
                f"an environment had no whole episode in {waited:,} steps: this algorithm learns "
                "from whole episodes. Choose another --algorithm for a level whose episodes are "
                "this long or never end."
            )
        return False

    def _quota(self, first: np.ndarray) -> int:
        """Episodes of each environment, chosen beforehand: those that end first are the short ones.

        As many as one block is likely to have are played in any case.
        """
        playing = max(1, int(np.count_nonzero(_plays(first))))  # 0 while all are waited for
        return max(math.ceil(self._size / playing), self._usual)

    def _batch(self, blocks: list[Unroll]) -> Batch:
        actors = self._actors(blocks)
        # Each length of batches has a graph of its own; powers of two are few.
        missing = _power_of_two(len(actors[0])) - len(actors[0])
        whole = join([_in_a_row(each + [_resets_after(each[-1])] * missing) for each in actors])
        batch = describe(whole, unrolls_in(whole))
        first = whole.environment.first
        playing = int(np.count_nonzero(_plays(first)))
        if playing > self._size:
            self._warn(
                "surplus",
                f"{playing} environments play for batches of {self._size} episodes, so each has "
                f"{playing}. Choose --batch_size and --envs_per_actor to have other ones.",
            )
        # What is played beyond the quota never ends, so it is no whole episode.
        beyond = _begun(first) > self._quota(first) + 1
        # Rows that are no resets any more have rewards like others.
        reward = np.where(first & beyond, np.float32(0), whole.environment.reward)
        environment = whole.environment._replace(first=first & ~beyond, reward=reward)
        in_first_block = _whole(_firsts_of([each[:1] for each in actors]))
        self._usual = int(in_first_block.min()) if in_first_block.size else 0
        self._sorted, self._of_each = [], []  # the batch is a copy
        return batch._replace(unrolls=whole._replace(environment=environment))

    def _actors(self, blocks: list[Unroll]) -> list[list[Unroll]]:
        """The blocks of each actor, in a row; only those new in the list are looked at.

        One that joined later, or was started again meanwhile, has fewer, and is left out.
        """
        if blocks is not self._sorted:
            self._sorted, self._of_each = blocks, []
        for block in blocks[sum(map(len, self._of_each)) :]:
            before = next((each for each in self._of_each if _continues(each[-1], block)), None)
            if before is None:
                self._of_each.append(before := [])
            before.append(block)
        longest = max(map(len, self._of_each))
        return [each for each in self._of_each if len(each) == longest]


def _firsts_of(actors: list[list[Unroll]]) -> np.ndarray:
    """[T + 1, B]: the resets in the blocks of all actors."""
    return np.concatenate([_firsts(each) for each in actors], axis=1)


def _firsts(blocks: list[Unroll]) -> np.ndarray:
    """[T + 1, B]: the resets in an actor's blocks."""
    return np.concatenate(
        [blocks[0].environment.first, *(one.environment.first[1:] for one in blocks[1:])]
    )


def _whole(first: np.ndarray) -> np.ndarray:
    """[B]: the episodes that have begun and ended in each environment that plays."""
    return np.maximum(_begun(first)[-1] - 1, 0)[_plays(first)]


def _waited(first: np.ndarray) -> np.ndarray:
    """[B]: the rows since the last whole episode in each environment that plays."""
    begun = _begun(first)[:, _plays(first)]
    last = np.argmax(begun == begun[-1], axis=0)
    return len(first) - 1 - np.where(begun[-1] > 1, last, 0)


def _begun(first: np.ndarray) -> np.ndarray:
    """[T + 1, B]: the episodes that have begun in each environment by a row."""
    begins = first.copy()
    # Several resets in a row are of a wait for one, or of a body without a part.
    begins[1:] &= ~first[:-1]
    return np.cumsum(begins, axis=0)


def _plays(first: np.ndarray) -> np.ndarray:
    """[B]: whether there is a step of an environment; a body may have no part in a game."""
    return np.any(~first[1:], axis=0)


def _steps(block: Unroll) -> int:
    return (len(block.action) - 1) * unrolls_in(block)


def _continues(one: Unroll, other: Unroll) -> bool:
    """Whether an actor has played a block right after another: several may have one number."""
    last, first = (
        EnvironmentStep(*(array[row] for array in block.environment))
        for block, row in ((one, -1), (other, 0))
    )
    return (
        np.array_equal(one.stream, other.stream)
        and np.array_equal(one.number + 1, other.number)
        and bool(same_rows(last, first).all())
    )


def _power_of_two(count: int) -> int:
    """The smallest one that is not below ``count``."""
    return 1 << (count - 1).bit_length()


def _resets_after(block: Unroll) -> Unroll:
    """A block of the same size in which nothing is played after the last row of this one."""

    def repeated(array: np.ndarray) -> np.ndarray:
        return np.broadcast_to(array[-1:], array.shape)

    timed = {
        name: tf.nest.map_structure(repeated, value)
        for name, value in block._asdict().items()
        if name not in UNTIMED
    }
    following = block._replace(**timed)
    like = following.environment.first
    return following._replace(
        environment=following.environment._replace(
            reward=np.zeros(like.shape, np.float32),
            terminated=np.zeros_like(like),
            first=np.ones_like(like),
        ),
        episodes=tf.nest.map_structure(np.zeros_like, following.episodes),
    )


def _in_a_row(blocks: list[Unroll]) -> Unroll:
    """Consecutive blocks of an actor as one; each begins with the last row of the one before."""

    def joined(*arrays: np.ndarray) -> np.ndarray:
        return np.concatenate([arrays[0], *(array[1:] for array in arrays[1:])])

    fields = {
        name: values[0] if name in UNTIMED else tf.nest.map_structure(joined, *values)
        for name, *values in zip(Unroll._fields, *blocks, strict=True)
    }
    return Unroll(**fields)
