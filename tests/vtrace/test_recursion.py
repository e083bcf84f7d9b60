"""The doubling recursion gives the same as a loop over the rows, with few operations."""

import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from vtrace.recursion import decayed_sums


def row_by_row(terms, decays):
    total, sums = np.zeros(terms.shape[1:]), []
    for term, decay in zip(terms[::-1], decays[::-1], strict=True):
        total = term + decay * total
        sums.append(total)
    return np.stack(sums[::-1])


@settings(max_examples=60)
@given(length=st.integers(1, 70), seed=st.integers(0, 2**16))
def test_it_equals_the_loop_over_rows_at_every_length(length, seed):
    rng = np.random.default_rng(seed)
    terms = rng.normal(size=(length, 3)).astype(np.float32)
    decays = (rng.random((length, 3)) * (rng.random((length, 3)) > 0.1)).astype(np.float32)
    np.testing.assert_allclose(decayed_sums(terms, decays), row_by_row(terms, decays), atol=1e-5)


def test_without_decay_it_is_the_sum_of_all_later_rows():
    sums = decayed_sums(tf.ones([200, 1]), tf.ones([200, 1]))
    np.testing.assert_array_equal(sums[:, 0], np.arange(200, 0, -1))


def test_a_decay_of_zero_cuts_off_later_rows():
    terms, decays = np.ones((9, 1), np.float32), np.ones((9, 1), np.float32)
    decays[3] = 0.0
    terms[4:] = 1e30
    np.testing.assert_array_equal(decayed_sums(terms, decays)[:4, 0], [4, 3, 2, 1])


def test_an_unroll_of_no_rows_has_no_sums():
    assert decayed_sums(tf.zeros([0, 2]), tf.zeros([0, 2])).shape == (0, 2)


def test_a_long_unroll_needs_no_more_operations_than_a_short_one():
    def operations(length):
        rows = tf.TensorSpec([length, 32])
        graph = tf.function(decayed_sums).get_concrete_function(rows, rows).graph
        return len(graph.get_operations())

    assert operations(2) == operations(200) < 50
