"""Differences between learners' weights are reported and repaired."""

import numpy as np
import tensorflow as tf

from trainer.team import compression
from trainer.team.equality import COMPARE_EVERY_UPDATES, Equality, digest
from trainer.team.team import ALONE


def variables() -> list[tf.Variable]:
    return [tf.Variable([1.0, 2.0]), tf.Variable(3.0)]


class Pair:
    """A team of two; the other learner has the same variables or another digest."""

    rank, size = 0, 2

    def __init__(self, other: int | None = None):
        self.other = other
        self.shared = 0

    def gather(self, rows: np.ndarray) -> np.ndarray:
        return np.concatenate([rows, rows if self.other is None else [self.other]])

    def broadcast(self, variables) -> None:
        self.shared += 1
        self.other = None


def compared(team, updates: int) -> list[str]:
    """The lines printed in a run of so many updates."""
    lines: list[str] = []
    equality = Equality(team, variables(), lines.append)
    for update in range(1, updates + 1):
        equality.after_update(update)
    equality.finish(updates)
    return lines


def test_one_different_bit_changes_the_digest():
    one, other = variables(), variables()
    assert digest(one) == digest(other)
    other[1].assign(np.nextafter(np.float32(3), np.float32(4)))
    assert digest(one) != digest(other)


def test_equal_learners_report_only_at_the_end():
    team = Pair()
    [report] = compared(team, 2 * COMPARE_EVERY_UPDATES + 5)
    assert report == (
        "The weights of the 2 learners were bit-identical in all 3 comparisons, the last one "
        "after 205 updates."
    )
    assert not team.shared


def test_learners_that_differ_copy_the_first_ones_weights():
    team = Pair(other=7)
    warning, report = compared(team, COMPARE_EVERY_UPDATES)
    assert "warning: at update 100 the weights of learner 1 differed from those of" in warning
    assert "differed in 1 of 2 comparisons" in report and team.shared == 1


def test_a_single_learner_has_nothing_to_compare():
    assert compared(ALONE, 200) == []


def test_without_gradients_there_is_nothing_to_compress():
    assert compression.sums(None, [], tf.float16) == []
