"""A sum tree agrees with sums and searches over a plain list."""

import itertools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trainer.replay.sum_tree import FAN_OUT, SumTree

SIZES = st.sampled_from([1, 2, FAN_OUT - 1, FAN_OUT, FAN_OUT + 1, FAN_OUT**2, FAN_OUT**2 + 1])
# Integers, so that sums are exact in any order.
VALUES = st.integers(0, 1000)


def filled(values):
    tree = SumTree(len(values))
    tree.set(np.arange(len(values)), np.array(values, np.float64))
    return tree


@given(st.data(), SIZES)
def test_values_and_sums_are_those_of_a_list(data, size):
    tree, expected = SumTree(size), [0.0] * size
    for _ in range(data.draw(st.integers(0, 5))):
        changes = data.draw(st.lists(st.tuples(st.integers(0, size - 1), VALUES), max_size=50))
        tree.set([index for index, _ in changes], [value for _, value in changes])
        # Where an index is there twice, the last value counts.
        for index, value in changes:
            expected[index] = value
    assert tree.values(np.arange(size)).tolist() == expected
    assert tree.total == sum(expected)


@given(st.data(), SIZES)
def test_each_mass_is_found_in_the_leaf_that_holds_it(data, size):
    sparse = data.draw(st.dictionaries(st.integers(0, size - 1), VALUES, min_size=1, max_size=20))
    values = [sparse.get(index, 0) for index in range(size)]
    ends = list(itertools.accumulate(values))
    if not ends[-1]:
        return
    masses = data.draw(st.lists(st.integers(0, ends[-1] - 1), min_size=1, max_size=20))
    found = filled(values).find(masses)
    expected = [next(i for i, end in enumerate(ends) if end > mass) for mass in masses]
    assert found.tolist() == expected


@given(
    st.lists(
        st.one_of(st.just(0.0), st.floats(0, 1e300), st.floats(0, 1e-300), st.floats(0, 1)),
        min_size=1,
        max_size=3 * FAN_OUT,
    ),
    st.lists(st.floats(0, 1), min_size=1, max_size=10),
)
@example([0.1] * 3 * FAN_OUT + [0.0], [1.0])
@example([5e-324], [0.0, 0.5, 1.0])
def test_a_leaf_of_value_zero_is_never_found(values, parts):
    tree = filled(values)
    if not tree.total:
        return
    masses = np.array([*parts, 0.0, 1.0, np.nextafter(1.0, 0.0)]) * tree.total
    assert (tree.values(tree.find([*masses, np.nextafter(tree.total, 0.0)])) > 0.0).all()


def test_the_sum_stays_exact_over_many_updates():
    random = np.random.default_rng(0)
    tree, values = SumTree(5000), np.zeros(5000)
    for _ in range(1000):
        indices = random.integers(5000, size=1000)
        # Of very different sizes, so that a running sum would lose the small ones.
        new = 10.0 ** random.uniform(-12, 12, size=1000)
        tree.set(indices, new)
        values[indices] = new
    assert tree.total == pytest.approx(values.sum(), rel=1e-14)
    tree.set(np.arange(5000), 0.0)
    assert tree.total == 0.0
    tree.set([17], 1e-9)
    assert tree.total == 1e-9


def test_leaves_are_found_as_often_as_their_values_say():
    random = np.random.default_rng(1)
    values = random.integers(0, 5, size=200)
    found = filled(values).find(random.random(200_000) * values.sum())
    expected = values / values.sum() * 200_000
    seen = np.bincount(found, minlength=200)
    assert not seen[values == 0].any()
    drawn = values > 0
    deviation = (((seen - expected) ** 2)[drawn] / expected[drawn]).sum()
    # Chi-square: its mean is the degrees of freedom, its variance twice that.
    freedom = np.count_nonzero(drawn) - 1
    assert abs(deviation - freedom) < 4 * np.sqrt(2 * freedom)


def test_bytes_are_counted_before_anything_is_allocated():
    # A million leaves of 8 bytes, and a 31st for the levels above.
    assert 8e6 * 32 / 31 <= SumTree.bytes_needed(10**6) <= 8e6 * 32 / 31 + 2000
