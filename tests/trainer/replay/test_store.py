"""A replay store draws every window that a plain model of it has, and no other."""

import math
import tracemalloc

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from agents import AgentState
from agents.frame_stack import stack_frames
from algorithms.trajectory import EnvironmentStep, Episodes, Unroll
from tests.trainer.replay.streams_played import (
    LIFE,
    STREAM,
    Model,
    Played,
    Player,
    block_of,
    first_of,
    rows_in,
)
from trainer.replay.choice import importance_weights
from trainer.replay.store import ReplayStore, bytes_needed


def drawn(store, before, times=30):
    """All windows of a store by their main start: index, probability, rows, first, unroll."""
    sample = store.sample(times * store.windows)
    found: dict[int, tuple] = {}
    for place, rows in enumerate(rows_in(sample)):
        unroll = sample.unrolls.weights_version[place]
        stream = unroll // STREAM
        assert sample.unrolls.stream[place] == stream
        assert sample.unrolls.level[place] == stream % 3
        first = sample.unrolls.environment.first[:, place].tolist()
        index, probability = sample.indices[place].item(), sample.probabilities[place].item()
        window = (index, probability, rows, first, int(unroll))
        assert found.setdefault(rows[before], window) == window
    assert len({index for index, *_ in found.values()}) == len(found)
    return found


def compare(store, model, before):
    expected = model.windows()
    assert store.windows == len(expected)
    if not expected:
        with pytest.raises(ValueError, match="too few steps"):
            store.sample(1)
        return
    # A window is missed by chance with a probability of exp(-30).
    found = drawn(store, before)
    assert {
        main: (rows, first, unroll) for main, (_, _, rows, first, unroll) in found.items()
    } == expected
    assert all(probability == 1 / len(expected) for _, probability, *_ in found.values())


def example_of(length):
    return block_of([Player(0, length).play()])[0]


@settings(max_examples=150)
@given(st.data())
def test_windows_are_those_of_the_model(data):
    length, streams = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4))
    slots = data.draw(st.integers(2 * streams, 25))
    before, window = data.draw(st.integers(0, 7)), data.draw(st.integers(1, 8))
    aligned = data.draw(st.booleans())
    state_row = data.draw(st.integers(0, before)) if aligned else 0
    shape = {"before": before, "aligned": aligned, "state_row": state_row}
    store = ReplayStore(example_of(length), slots * length, length=window, **shape)
    model = Model(slots, length, window, **shape)
    players = [Player(stream, length) for stream in range(streams)]
    for _ in range(data.draw(st.integers(1, 12))):
        for player in players:
            event = data.draw(st.sampled_from(["none"] * 8 + ["restart", "loss"]))
            if event == "restart":
                player.restart()
            elif event == "loss":
                player.lose()
        playing = data.draw(st.lists(st.sampled_from(players), min_size=1, unique=True))
        unrolls = [player.play() for player in playing]
        store.add(*block_of(unrolls))
        model.add(unrolls)
        if data.draw(st.booleans()):
            compare(store, model, before)
    compare(store, model, before)


def test_a_stream_may_be_in_a_block_several_times():
    one, other = Player(0, 3), Player(1, 3)
    together = [one.play(), other.play(), one.play(), one.play(), other.play()]
    store = ReplayStore(example_of(3), 30, before=2, length=2)
    store.add(*block_of(together))
    # Of 9 transitions and of 6.
    starts = [*range(8), *range(STREAM, STREAM + 5)]
    expected = [start for start in starts if not first_of(start + 1)]
    assert sorted(drawn(store, 2)) == expected


def test_a_store_over_many_rounds_holds_its_newest_steps():
    length, before, window, slots = 5, 3, 3, 24
    store = ReplayStore(example_of(length), slots * length, before=before, length=window)
    model = Model(slots, length, window, before=before)
    players = [Player(stream, length) for stream in range(3)]
    for _ in range(200):
        unrolls = [player.play() for player in players]
        store.add(*block_of(unrolls))
        model.add(unrolls)
    compare(store, model, before)
    newest = max(window.rows[-1] for window in model.windows().values())
    assert newest == 2 * STREAM + 200 * length


def test_a_stream_does_not_continue_another_one_that_took_its_slot():
    store = ReplayStore(example_of(3), 12, before=0, length=1)
    slow, other = Player(0, 3), Player(1, 3)
    for player in (slow, other):
        store.add(*block_of([player.play()]))
    # With the unroll of number 0 where the slow stream's was.
    other.restart()
    store.add(*block_of([other.play()]))
    store.add(*block_of([slow.play()]))
    assert all(rows[1] == rows[0] + 1 for rows in rows_in(store.sample(200)))


def test_a_stream_does_not_continue_what_another_actor_of_the_same_number_played():
    store = ReplayStore(example_of(3), 60, before=2, length=2)
    one, other = Player(0, 3), Player(0, 3)
    other.restart()
    for player in (one, other) * 3:
        store.add(*block_of([player.play()]))
    assert store.windows
    rows_in(store.sample(200))  # looks whether rows follow one another


def test_a_block_too_large_for_the_store_is_refused():
    store = ReplayStore(example_of(3), 9, before=0, length=1)
    with pytest.raises(ValueError, match="2 unrolls need 4 slots; there are 3"):
        store.add(*block_of([Player(0, 3).play(), Player(1, 3).play()]))


def test_windows_that_begin_with_unrolls_have_the_stored_state():
    store = ReplayStore(example_of(4), 200, before=3, length=4, aligned=True, state_row=1, seed=1)
    player = Player(2, 4)
    for _ in range(20):
        store.add(*block_of([player.play()]))
    sample = store.sample(100)
    for place, rows in enumerate(rows_in(sample)):
        start = rows[1]
        assert start % 4 == 0 and rows[-1] == start + 6
        hidden, cell = sample.unrolls.initial_state.lstm
        assert (hidden[place], cell[place]) == (start, -start)
        assert sample.unrolls.number[place] == start % LIFE // 4
    assert sample.unrolls.initial_state.frames.shape == (100, 2, 3)
    assert not sample.unrolls.initial_state.frames.any()


def test_unrolls_of_one_step_begin_one_window_each():
    store = ReplayStore(example_of(1), 20, before=1, length=1, aligned=True)
    player = Player(0, 1)
    for _ in range(6):
        store.add(*block_of([player.play()]))
    expected = [[row, row + 1, row + 2] for row in range(5)]
    assert sorted({tuple(rows) for rows in rows_in(store.sample(200))}) == [*map(tuple, expected)]
    assert store.windows == len(expected)


def test_windows_that_begin_anywhere_have_a_state_of_zeros():
    store = ReplayStore(example_of(4), 200, before=1, length=1)
    store.add(*block_of([Player(2, 4).play()]))
    state = store.sample(6).unrolls.initial_state
    assert isinstance(state, AgentState)
    assert [part.shape for part in tf.nest.flatten(state)] == [(6, 2, 3), (6, 1), (6, 1)]
    assert not any(part.any() for part in tf.nest.flatten(state))


@settings(max_examples=20)
@given(depth=st.integers(1, 5), length=st.integers(1, 6), slots=st.integers(4, 12))
def test_stacked_frames_are_those_that_the_actor_saw(depth, length, slots):
    def stacks(rows, first):
        """The rows in each row's stack, -1 where it is blank."""
        earlier = tf.fill([rows.shape[1], depth - 1, 1], -7.0)
        frames = tf.constant(rows[..., None].astype(np.float32))
        return stack_frames(frames, tf.constant(first), earlier, tf.fill([1], -1.0))[0].numpy()

    store = ReplayStore(example_of(length), slots * length, before=depth - 1, length=2)
    players = [Player(0, length), Player(1, length)]
    for _ in range(10):
        store.add(*block_of([player.play() for player in players]))
    played = np.arange(10 * length + 1)[:, None] + [[0, STREAM]]
    seen = {stack[-1]: stack.tolist() for stack in stacks(played, first_of(played))}
    if not store.windows:
        return
    environment = store.sample(50).unrolls.environment
    rows = environment.observation[..., 0]
    for stack in stacks(rows, environment.first).reshape([*rows.shape, depth])[depth - 1 :]:
        for one in stack:
            assert one.tolist() == seen[one[-1]]


def prioritized(unrolls=6, slots=20, exponent=0.5):
    store = ReplayStore(
        example_of(4), slots * 4, before=0, length=1, priority_exponent=exponent, seed=5
    )
    player = Player(0, 4)
    for _ in range(unrolls):
        store.add(*block_of([player.play()]))
    return store, player


def test_windows_are_drawn_as_often_as_their_priorities_say():
    store, player = prioritized()
    windows = drawn(store, 0)
    assert {probability for _, probability, *_ in windows.values()} == {1 / len(windows)}
    mains = np.array(sorted(windows))
    indices = np.array([windows[main][0] for main in mains])
    # An index that is there twice has the last priority.
    twice = np.concatenate([indices, indices])
    store.update_priorities(twice, np.concatenate([np.ones(len(mains)), 1.0 + mains]))
    expected = np.sqrt(1.0 + mains) / np.sqrt(1.0 + mains).sum()
    sample = store.sample(100_000)
    place = np.searchsorted(mains, sample.unrolls.environment.observation[0, :, 0])
    np.testing.assert_allclose(sample.probabilities, expected[place])
    seen = np.bincount(place, minlength=len(mains))
    deviation = ((seen - 100_000 * expected) ** 2 / (100_000 * expected)).sum()
    freedom = len(mains) - 1
    assert abs(deviation - freedom) < 4 * math.sqrt(2 * freedom)
    # New windows come with the largest priority so far.
    store.add(*block_of([player.play()]))
    after = drawn(store, 0, times=1000)
    new = [after[main][1] for main in after if main not in windows]
    assert new and new == pytest.approx([after[mains[-1]][1]] * len(new))


def test_priorities_of_overwritten_windows_are_ignored():
    store, player = prioritized(unrolls=3, slots=4)
    old = drawn(store, 0)
    indices = np.array([index for index, *_ in old.values()])
    store.update_priorities(indices, np.full(len(indices), 0.1))
    for _ in range(4):
        store.add(*block_of([player.play()]))
    new = drawn(store, 0)
    assert not old.keys() & new.keys()
    assert {probability for _, probability, *_ in new.values()} == {1 / len(new)}
    store.update_priorities(indices, np.full(len(indices), 1000.0))
    assert drawn(store, 0) == new


def test_windows_that_lost_their_earlier_rows_are_not_drawn_again():
    length = 4
    store = ReplayStore(example_of(length), 6 * length, before=6, length=1, priority_exponent=1.0)
    model = Model(6, length, 1, before=6)
    player, indices = Player(0, length), np.zeros([0], np.int64)
    for _ in range(30):
        unroll = player.play()
        store.add(*block_of([unroll]))
        model.add([unroll])
        store.update_priorities(indices, np.ones(len(indices)))
        compare(store, model, 6)
        if store.windows:
            indices = np.array([index for index, *_ in drawn(store, 6).values()])


def test_priorities_of_zero_are_small_and_those_that_are_not_finite_ignored():
    store, _ = prioritized(exponent=1.0)
    indices = np.unique(store.sample(500).indices)
    store.update_priorities(indices, np.zeros(len(indices)))
    assert set(store.sample(500).probabilities) == {1 / len(indices)}
    store.update_priorities(indices[:3], np.array([np.nan, np.inf, 1.0], np.float32))
    sample = store.sample(1000)
    assert np.isfinite(sample.probabilities).all()
    assert np.count_nonzero(sample.indices == indices[2]) > 990


def test_importance_weights_undo_the_choice():
    probabilities = np.array([0.5, 0.25, 0.125])
    assert importance_weights(probabilities, 10, 1.0).tolist() == [0.25, 0.5, 1.0]
    assert importance_weights(probabilities, 10, 0.5).tolist() == pytest.approx(
        [0.5, math.sqrt(0.5), 1.0]
    )
    assert importance_weights(probabilities, 10, 0.0).tolist() == [1.0, 1.0, 1.0]
    assert importance_weights(probabilities, 10, 0.4).dtype == np.float32


def atari(length, frames=0):
    return Unroll(
        environment=EnvironmentStep(
            np.zeros([length + 1, 1, 84, 84, 1], np.uint8),
            np.zeros([length + 1, 1], np.float32),
            np.zeros([length + 1, 1], bool),
            np.zeros([length + 1, 1], bool),
        ),
        action=np.zeros([length + 1, 1], np.int32),
        recorded={},
        initial_state=AgentState(np.zeros([1, frames, 84, 84, 1], np.uint8), ()),
        episodes=Episodes(
            np.zeros([length + 1, 1], np.float32), np.zeros([length + 1, 1], np.int32)
        ),
        level=np.zeros([1], np.int32),
        stream=np.zeros([1], np.int32),
        number=np.zeros([1], np.int32),
        weights_version=np.zeros([1], np.float32),
    )


@pytest.mark.parametrize("prioritized", [False, True])
def test_a_million_steps_of_atari_take_less_than_8_gib(prioritized):
    needed = bytes_needed(atari(20, frames=3), 10**6, prioritized=prioritized)
    frames = 84 * 84 * 10**6
    others = (4 + 1 + 1 + 4 + 4 + 4) * 10**6 + 50_000 * 4 * 4
    assert frames + others < needed < frames + others + 20 * 10**6 < 8 * 2**30


@pytest.mark.parametrize("exponent", [None, 1.0])
@pytest.mark.parametrize("aligned", [False, True])
def test_a_store_takes_the_memory_that_was_computed(exponent, aligned):
    example = example_of(10)
    tracemalloc.start()
    store = ReplayStore(
        example, 10**5, before=1, length=1, aligned=aligned, priority_exponent=exponent
    )
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    needed = bytes_needed(example, 10**5, aligned=aligned, prioritized=exponent is not None)
    assert needed <= taken < needed + 20_000
    assert store.windows == 0


def test_earlier_frames_are_not_stored():
    assert bytes_needed(atari(20, frames=0), 1000) == bytes_needed(atari(20, frames=3), 1000)


def test_an_unroll_is_no_longer_there_after_a_restart_with_a_number_that_fits():
    store = ReplayStore(example_of(3), 60, before=1, length=2)
    store.add(*block_of([Played(0, 4, [12, 13, 14, 15])]))
    store.add(*block_of([Played(0, 0, [100, 101, 102, 103])]))
    store.add(*block_of([Played(0, 1, [103, 104, 105, 106])]))
    rows = rows_in(store.sample(200))
    assert all(window[-1] <= 15 or window[0] >= 100 for window in rows)
