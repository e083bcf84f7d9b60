"""The copy of a replay on disk is right, or lacks unrolls, or is refused; it is never wrong."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.trainer.disks import Full, break_at
from tests.trainer.replay.streams_played import LIFE, Player, block_of, rows_in
from trainer.replay.store import ReplayStore
from user_error import UserError

LENGTH, SLOTS, BEFORE, STREAMS = 4, 30, 3, 3


def make(**changes):
    arguments = {"before": BEFORE, "length": 2, "priority_exponent": 0.5, **changes}
    example = block_of([Player(0, LENGTH).play()])[0]
    return ReplayStore(example, arguments.pop("capacity", SLOTS * LENGTH), **arguments)


def play(store, players, blocks):
    for _ in range(blocks):
        store.add(*block_of([player.play() for player in players]))


def drawn(store):
    """Index, probability and rows of all windows, by their main start."""
    sample = store.sample(50 * store.windows)
    indices, probabilities = sample.indices.tolist(), sample.probabilities.tolist()
    windows = zip(indices, probabilities, rows_in(sample), strict=True)
    return {window[2][BEFORE]: window for window in windows}


@pytest.fixture
def players():
    return [Player(stream, LENGTH) for stream in range(STREAMS)]


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "replay"


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("exponent", [None, 0.0, 0.5])
def test_a_store_is_the_same_after_a_save_and_a_load(folder, players, aligned, exponent):
    arguments = {"aligned": aligned, "priority_exponent": exponent}
    store = make(**arguments)
    for blocks in (2, 3, 1, 20):
        play(store, players, blocks)
        sample = store.sample(10)
        store.update_priorities(sample.indices, np.arange(1.0, 11.0))
        store.save(folder)
        loaded = make(**arguments)
        loaded.load(folder)
        assert loaded.windows == store.windows
        assert drawn(loaded) == drawn(store)
        if aligned:
            unrolls = loaded.sample(100).unrolls
            assert (unrolls.initial_state.lstm.hidden[:, 0] == unrolls.weights_version).all()


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("exponent", [None, 0.5])
def test_an_empty_store_is_saved_and_loaded(folder, players, aligned, exponent):
    arguments = {"aligned": aligned, "priority_exponent": exponent}
    make(**arguments).save(folder)
    loaded = make(**arguments)
    loaded.load(folder)
    assert loaded.windows == 0
    play(loaded, players, 3)
    loaded.save(folder)
    again = make(**arguments)
    again.load(folder)
    assert again.windows == loaded.windows > 0


def test_a_save_of_all_slots_that_was_interrupted_leaves_none(folder, players, monkeypatch):
    store = make()
    play(store, players, 30)
    store.save(folder)
    play(store, players, 30)
    with monkeypatch.context() as broken:
        break_at(broken, 3)  # the notes are written
        with pytest.raises(Full):
            store.save(folder)
    loaded = make()
    loaded.load(folder)
    assert loaded.windows == 0 and loaded.lost == SLOTS
    play(loaded, players, 3)
    assert drawn(loaded)


def test_a_loaded_store_goes_on_where_the_copy_ended(folder, players):
    store = make()
    for _ in range(4):
        play(store, players, 7)
        store.save(folder)
        store = make()
        store.load(folder)
    expected = drawn(store)
    play(store, players, 1)
    added = drawn(store).keys() - expected.keys()
    assert added and all(main % LIFE >= 28 * LENGTH for main in added)


def test_streams_begin_anew_after_a_load_even_if_their_numbers_fit(folder):
    player, store = Player(0, LENGTH), make(before=0)
    play(store, [player], SLOTS - 1)  # and a slot for the row before them
    store.save(folder)
    loaded = make(before=0)
    loaded.load(folder)
    play(loaded, [player], 1)
    windows = rows_in(loaded.sample(5000))
    last = (SLOTS - 1) * LENGTH
    assert all(rows[-1] <= last or rows[0] >= last for rows in windows)
    assert [last, last + 1, last + 2] in windows


def test_new_windows_have_the_largest_priority_also_after_a_load(folder, players):
    store = make()
    play(store, players, 2)
    best = store.sample(1).indices
    store.update_priorities(best, np.array([9.0]))
    store.save(folder)
    loaded = make()
    loaded.load(folder)
    old = drawn(loaded).keys()
    play(loaded, [Player(8, LENGTH)], 3)
    chances = {index: chance for index, chance, _ in drawn(loaded).values()}
    new = {chance for main, (_, chance, _) in drawn(loaded).items() if main not in old}
    assert new == {chances[best.item()]}


def test_writes_that_stop_halfway_are_continued(folder, players, monkeypatch):
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, offset: pwrite(file, data[:100], offset))
    store, loaded = make(), make()
    play(store, players, 5)
    store.save(folder)
    loaded.load(folder)
    assert drawn(loaded) == drawn(store)


def test_only_what_changed_is_written(folder, players, monkeypatch):
    written: list[tuple[int, int]] = []
    pwrite = os.pwrite

    def count(file, data, offset):
        written.append((len(data), offset))
        return pwrite(file, data, offset)

    store = make()
    play(store, players, 5)
    store.save(folder)
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    monkeypatch.setattr(os, "pwrite", count)
    store.save(folder)
    assert not written
    play(store, players, 1)
    store.save(folder)
    # Of 3 slots: observation and 8 numbers for each row, 4 for each slot, and its note.
    row = 3 * 4 + 4 + 1 + 1 + 4 + 2 * 4 + 2 * 4
    assert sum(size for size, _ in written) == 3 * (LENGTH * row + 4 * 4 + 8)
    # Files keep their size; only the index has more in it.
    assert {path.name: path.stat().st_size for path in folder.iterdir()} == sizes
    loaded = make()
    loaded.load(folder)
    assert drawn(loaded) == drawn(store)


@pytest.mark.parametrize("blocks", [4, 30])
def test_a_save_that_fails_at_any_moment_leaves_all_that_it_did_not_write(
    folder, players, blocks, monkeypatch
):
    store = make()
    play(store, players, blocks)
    store.save(folder)
    saves = 0
    for step in range(1, 100):
        before = drawn(store)
        play(store, players, 2)
        with monkeypatch.context() as broken:
            break_at(broken, step)
            try:
                store.save(folder)
                break
            except Full:
                saves += 1
        after = drawn(store)
        loaded = make()
        loaded.load(folder)
        # Of each window that it has, all rows were compared with what they must be.
        found = drawn(loaded).keys() if loaded.windows else set()
        assert before.keys() & after.keys() <= found <= before.keys()
        # The copy is whole again with the next save, which writes what is missing.
        store.save(folder)
        whole = make()
        whole.load(folder)
        assert drawn(whole) == after
    # A note and its file, each array and its file, the index, its name.
    assert saves > 20


def test_the_first_save_of_another_store_replaces_the_copy(folder, players, monkeypatch):
    store = make()
    play(store, players, 6)
    store.save(folder)
    other = make()
    play(other, [Player(7, LENGTH)], 3)
    with monkeypatch.context() as broken:
        break_at(broken, 5)
        with pytest.raises(Full):
            other.save(folder)
    with pytest.raises(UserError, match="has no complete copy of a replay"):
        make().load(folder)
    other.save(folder)
    loaded = make()
    loaded.load(folder)
    assert drawn(loaded) == drawn(other)


KILLING = """
import os
import random
import signal
import sys
import time
from pathlib import Path

from tests.trainer.replay.test_copy_on_disk import LENGTH, STREAMS, Player, drawn, make, play

folder = Path(sys.argv[1])
for kills in range(20):
    store = make()
    if kills:
        store.load(folder)
        assert drawn(store)  # all fields of all windows are what they must be
    players = [Player(stream, LENGTH) for stream in range(STREAMS)]
    for player in players:
        for _ in range(kills):
            player.restart()
    play(store, players, 1)
    store.save(folder)
    parent, child = os.getpid(), os.fork()
    while not child and os.getppid() == parent:
        play(store, players, 2)
        store.save(folder)
    time.sleep(random.uniform(0.0, 0.1))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
print("killed", kills + 1)
"""


def test_a_process_killed_in_mid_save_leaves_a_copy_that_is_right(folder):
    # In a process of its own, because it forks.
    ended = subprocess.run(
        [sys.executable, "-c", KILLING, str(folder)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout == "killed 20\n"


def test_copies_that_cannot_be_used_are_refused_in_one_line(folder, players):
    store = make()
    play(store, players, 2)
    with pytest.raises(UserError, match="has no complete copy"):
        store = make()
        store.load(folder)
    play(store, players, 2)
    store.save(folder)
    for changes in ({"capacity": 80}, {"aligned": True}):
        with pytest.raises(UserError, match="replay of another size") as refused:
            make(**changes).load(folder)
        assert "\n" not in str(refused.value)
    reward, index = folder / "reward.npy", folder / "index.npz"
    for path in (reward, index, folder / "slots.npy"):
        whole = path.read_bytes()
        for damaged in (b"", whole[:50], whole[:-1], b"?" * len(whole)):
            path.write_bytes(damaged)
            with pytest.raises(UserError, match=f"{path.name} is damaged") as refused:
                make().load(folder)
            assert "\n" not in str(refused.value)
        path.write_bytes(whole)
    loaded = make()
    loaded.load(folder)
    assert loaded.windows == store.windows


def test_windows_count_as_new_if_the_exponent_was_changed(folder, players):
    store = make()
    play(store, players, 3)
    sample = store.sample(5)
    store.update_priorities(sample.indices, np.full(5, 7.0))
    store.save(folder)
    for exponent in (None, 0.6):
        loaded = make(priority_exponent=exponent)
        loaded.load(folder)
        assert set(loaded.sample(100).probabilities) == {1 / store.windows}


def test_windows_of_another_shape_are_drawn_from_the_same_copy(folder, players):
    store = make()
    play(store, players, 9)
    store.save(folder)
    longer = make(length=5)
    longer.load(folder)
    assert 0 < longer.windows < store.windows
    assert all(len(rows) == BEFORE + 6 for _, _, rows in drawn(longer).values())


def test_only_an_empty_store_can_be_loaded(folder, players):
    store = make()
    play(store, players, 1)
    store.save(folder)
    with pytest.raises(ValueError, match="only an empty store"):
        store.load(Path(folder))
