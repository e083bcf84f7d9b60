"""Batches hold each unroll once, in the order of arrival."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from algorithms.feeding import FirstInFirstOut
from algorithms.trajectory import EnvironmentStep, Episodes, Unroll
from trainer.learning.batches import Batches, Replay, cut, describe, join, unrolls_in

ROWS = 4
AXES = dict.fromkeys(("initial_state", "level", "stream", "number", "weights_version"), 0)


def block(*names: int) -> Unroll:
    """A block in which every number of column i is the name of unroll i."""
    named = np.array(names, np.int32)
    timed = np.broadcast_to(named, [ROWS, len(named)])
    wide = np.broadcast_to(named[:, None], [ROWS, len(named), 2])
    return Unroll(
        environment=EnvironmentStep(wide, timed, timed, timed),
        action=wide,
        recorded={"log_prob": timed},
        initial_state=(wide[0], ((), named)),
        episodes=Episodes(timed, timed),
        level=named,
        stream=named,
        number=named,
        weights_version=named,
    )


def names(batch: Unroll | None) -> list[int]:
    """The names of a batch's unrolls; asserts that all fields of each have the same name."""
    assert batch is not None
    found = batch.level
    for field, values in batch._asdict().items():
        axis = AXES.get(field, 1)
        for array in tf.nest.flatten(values):
            assert array.shape[axis] == len(found)
            assert len(array) == ROWS or axis == 0
            columns = np.moveaxis(array, axis, 0).reshape(len(found), -1)
            assert (columns == found[:, None]).all(), field
    return found.tolist()


def blocks_of(sizes):
    start = 0
    for size in sizes:
        yield block(*range(start, start + size))
        start += size


def next_unrolls(batches, take):
    batch = batches.next(take)
    assert batch is not None
    return batch.unrolls


def test_joining_undoes_cutting():
    whole = block(*range(5))
    left, right = cut(whole, 0, 2), cut(whole, 2, 5)
    assert (names(left), names(right)) == ([0, 1], [2, 3, 4])
    assert names(join([left, right])) == names(whole)
    assert join([whole]) is whole


@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=20), fresh=st.integers(1, 12))
def test_every_unroll_arrives_once_and_in_order_for_all_sizes(sizes, fresh):
    batches, coming = Batches(FirstInFirstOut(), fresh), blocks_of(sizes)
    whole = sum(sizes) // fresh
    got = [names(next_unrolls(batches, lambda: next(coming))) for _ in range(whole)]
    assert all(len(batch) == fresh for batch in got)
    assert sum(got, []) == list(range(whole * fresh))


def test_steps_are_those_of_new_unrolls_without_resets():
    whole = block(0, 1, 2)
    first = np.zeros([ROWS, 3], bool)
    first[0] = first[2, 1] = first[3, 2] = True
    rows = whole.environment._replace(first=first)
    batch = describe(whole._replace(environment=rows), fresh=2)
    assert batch.steps == 2 * (ROWS - 1) - 1


def test_no_block_is_taken_before_it_is_needed():
    taken: list[None] = []

    def take():
        taken.append(None)
        return block(*range(6))

    batches = Batches(FirstInFirstOut(), 4)
    for wanted in (1, 2, 2, 3):
        batches.next(take)
        assert len(taken) == wanted


def test_blocks_are_kept_if_the_next_one_is_missing():
    batches = Batches(FirstInFirstOut(), 3)
    coming = iter([block(0, 1), TimeoutError, block(2, 3)])

    def take():
        one = next(coming)
        if one is TimeoutError:
            raise TimeoutError
        return one

    with pytest.raises(TimeoutError):
        batches.next(take)
    assert names(next_unrolls(batches, take)) == [0, 1, 2]


def test_replayed_unrolls_follow_the_fresh_ones():
    coming = blocks_of([4] * 50)
    batches = Batches(FirstInFirstOut(replayed=0.625, capacity=20), 8, seed=1)
    replayed: list[int] = []
    # There is nothing to replay yet.
    assert names(next_unrolls(batches, lambda: next(coming))) == list(range(8))
    for update in range(60):
        newest = 3 * update + 7
        got = names(next_unrolls(batches, lambda: next(coming)))
        assert got[:3] == [newest + 1, newest + 2, newest + 3]
        assert len(got) == 8
        assert all(max(0, newest - 19) <= old <= newest for old in got[3:])
        replayed += [newest - old for old in got[3:]]
    # The newest, the oldest and all between are drawn.
    assert {0, 19} < set(replayed) == set(range(20))


def test_only_new_unrolls_count_as_steps():
    coming = blocks_of([4] * 50)
    batches = Batches(FirstInFirstOut(replayed=0.75, capacity=100), 8)
    made = [batches.next(lambda: next(coming)) for _ in range(4)]
    assert [batch and batch.steps for batch in made] == [8 * 3, 2 * 3, 2 * 3, 2 * 3]


def test_a_replay_drops_unrolls_beyond_its_capacity():
    replay = Replay(capacity=3, seed=0)
    replay.add(block(*range(10)))
    assert {unroll.level.item() for unroll in replay.sample(100)} == {7, 8, 9}
    assert all(unrolls_in(unroll) == 1 for unroll in replay.sample(2))
