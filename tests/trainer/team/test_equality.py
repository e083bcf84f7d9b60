"""Learners that come to differ are told of and mended."""

import numpy as np
import tensorflow as tf

from trainer.team.equality import COMPARE_EVERY_UPDATES, Equality, digest
from trainer.team.team import ALONE


def variables() -> list[tf.Variable]:
    return [tf.Variable([1.0, 2.0]), tf.Variable(3.0)]


class Pair:
    """A team of two: the other one has the same variables, or others."""

    rank, size = 0, 2

    def __init__(self, other: int | None = None):
        self.other = other
        self.shared = 0

    def gather(self, rows: np.ndarray) -> np.ndarray:
        return np.concatenate([rows, rows if self.other is None else [self.other]])

    def share(self, variables) -> None:
        self.shared += 1
        self.other = None


def compared(team, updates: int) -> list[str]:
    """What is said in a run of so many updates."""
    said: list[str] = []
    equality = Equality(team, variables(), said.append)
    for update in range(1, updates + 1):
        equality.after_update(update)
    equality.finish(updates)
    return said


def test_a_digest_differs_where_one_bit_does():
    one, other = variables(), variables()
    assert digest(one) == digest(other)
    other[1].assign(np.nextafter(np.float32(3), np.float32(4)))
    assert digest(one) != digest(other)


def test_equal_learners_are_compared_in_silence_until_the_end():
    team = Pair()
    [told] = compared(team, 2 * COMPARE_EVERY_UPDATES + 5)
    assert told == (
        "The weights of the 2 learners were equal, bit for bit, each of the 3 times that they "
        "were compared, last after 205 updates."
    )
    assert not team.shared


def test_learners_that_differ_take_over_the_first_ones_weights():
    team = Pair(other=7)
    warning, told = compared(team, COMPARE_EVERY_UPDATES)
    assert "warning: at update 100 the weights of learner 1 were not equal" in warning
    assert "differed 1 of the 2 times" in told and team.shared == 1


def test_a_learner_alone_has_nothing_to_compare():
    assert compared(ALONE, 200) == []
