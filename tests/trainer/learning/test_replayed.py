"""A replay has windows of all who play for it, or is refused, and keeps what is left to warm up."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from algorithms.feeding import Replayed
from algorithms.trajectory import Unroll
from tests.trainer.disks import Full, break_at
from tests.trainer.replay.streams_played import Player, block_of
from trainer.learning.replayed import ReplayedBatches, Shape, check_room, least_slots, shape_of
from user_error import UserError


def shape(length: int, n_steps: int, stack: int, burn_in: int | None) -> Shape:
    """The windows of unrolls of a length; ``burn_in`` is None without an LSTM."""
    feeding = Replayed(100, 1, 1.0, ahead=n_steps, burn_in=burn_in or 0)
    return shape_of(feeding, stack, length, burn_in is not None)


def batches(shape: Shape, length: int, capacity: int, warm_up: int = 1) -> ReplayedBatches:
    """A feeder for blocks like those of `played`."""
    feeding = Replayed(capacity, warm_up, updates_per_step=1.0)
    return ReplayedBatches(feeding, 8, shape, played([Player(0, length)]), 0, lambda text: None)


def played(players: list[Player]) -> Unroll:
    """The next unroll of each, in episodes that never end."""
    block, _, _ = block_of([player.play() for player in players])
    first = np.zeros_like(block.environment.first)
    return block._replace(environment=block.environment._replace(first=first))


@pytest.mark.parametrize("burn_in", [0, 1, 4])
def test_every_step_for_an_lstm_is_learned_from_whatever_its_burn_in(burn_in):
    windows, player = shape(length=6, n_steps=3, stack=2, burn_in=burn_in), Player(0, 6)
    made, learned, newest = batches(windows, 6, capacity=600), set(), 0
    while newest < 400:
        batch = made.next(lambda: block_of([player.play()])[0])
        assert batch is not None
        rows = batch.unrolls.environment.observation[windows.before :, :, 0]
        learned |= set(rows[: windows.length - 2].ravel().tolist())  # a target takes two more
        newest = rows.max()
    assert learned >= set(range(burn_in + 1, 300))  # beginnings of episodes, too


@pytest.mark.parametrize("actors", [1, 4])
@pytest.mark.parametrize(
    ("length", "n_steps", "stack", "burn_in"),
    [
        (4, 3, 1, None),
        (4, 5, 1, None),
        (4, 3, 4, None),
        (3, 11, 2, None),
        (1, 1, 1, None),
        (1, 4, 3, None),
        (6, 1, 1, 0),
        (6, 3, 1, 2),
        (6, 1, 3, 0),
        (3, 5, 5, 1),
    ],
)
def test_the_least_replay_that_is_taken_has_windows_of_every_environment(
    length, n_steps, stack, burn_in, actors
):
    windows, environments = shape(length, n_steps, stack, burn_in), 3
    streams = actors * environments
    slots = least_slots(windows, length, streams, environments)
    with pytest.raises(UserError, match=f"expected {slots * length} or more for {streams} env"):
        check_room((slots - 1) * length, windows, length, streams, environments)
    check_room(slots * length, windows, length, streams, environments)
    made = batches(windows, length, slots * length)
    players = [Player(stream, length) for stream in range(streams)]
    of_actors = itertools.cycle(players[start::actors] for start in range(actors))
    steps, seen = 0, set()
    while steps < 5 * slots * length:
        batch = made.next(lambda: played(next(of_actors)))
        steps += batch.steps if batch else 0
        if batch and steps > 2 * slots * length:
            seen |= set(batch.unrolls.stream.tolist())
    assert seen == set(range(streams))


def test_actors_for_which_a_replay_turns_out_to_have_no_room_are_refused():
    windows = shape(length=4, n_steps=5, stack=1, burn_in=None)
    made = batches(windows, 4, capacity=48)
    check_room(48, windows, 4, streams=4, block=4)
    players = [Player(stream, 4) for stream in range(40)]
    of_actors = itertools.cycle(players[start : start + 4] for start in range(0, 40, 4))
    with pytest.raises(UserError, match=r"--replay_steps=48: no window .* 40 .* expected 336 or"):
        while True:
            assert made.next(lambda: played(next(of_actors))) is None


@pytest.mark.parametrize(("played_again", "left"), [(5, 40), (20, 0)])
def test_a_replay_kept_while_it_was_filled_again_goes_on_with_that(tmp_path, played_again, left):
    windows, player = shape(length=4, n_steps=1, stack=1, burn_in=None), Player(0, 4)
    # The first run learns, and keeps no replay; the second one begins with an empty one.
    assert updates(batches(windows, 4, 400, warm_up=60), player, 40) == 100
    second = batches(windows, 4, 400, warm_up=60)
    updates(second, player, played_again)
    second.save(tmp_path)
    third = batches(windows, 4, 400, warm_up=60)
    assert third.load(tmp_path, has_learned=True) == left
    assert updates(third, player, 20) == 80 - left


def updates(made: ReplayedBatches, player: Player, unrolls: int) -> int:
    """The updates after so many more unrolls of 4 steps."""
    blocks, count = iter([played([player]) for _ in range(unrolls)]), 0
    while made.next(lambda: next(blocks, None)):
        count += 1
    return count


@pytest.mark.parametrize(
    ("unrolls", "warm_up", "left", "due"),
    [(2, 60, 0, 3), (10, 60, 21, 0), (30, 60, 60, 0), (30, 0, 0, 3)],
)
def test_what_an_interrupted_save_has_lost_is_played_again_if_the_rest_is_little(
    tmp_path, monkeypatch, unrolls, warm_up, left, due
):
    windows, player = shape(length=4, n_steps=1, stack=1, burn_in=None), Player(0, 4)
    made, resumed = (batches(windows, 4, 80, warm_up) for _ in range(2))  # 20 unrolls
    updates(made, player, 40)
    assert made.next(lambda: played([player]))  # one of the 4 updates that are due by now
    made.save(tmp_path)
    updates(made, player, unrolls)
    with monkeypatch.context() as broken:
        break_at(broken, 3)  # the notes of what is changed are written
        with pytest.raises(Full):
            made.save(tmp_path)
    assert resumed.load(tmp_path, has_learned=True) == left
    assert updates(resumed, player, 20) == 80 - left + due


@pytest.mark.parametrize("unrolls", [3, 20])
def test_steps_that_no_batch_has_counted_yet_are_counted_after_a_resume(tmp_path, unrolls):
    windows, player = shape(length=4, n_steps=1, stack=1, burn_in=None), Player(0, 4)

    def counted(made: ReplayedBatches, unrolls: int) -> int:
        """The agent steps of all batches after so many more unrolls of 4 steps."""
        blocks, steps = iter([played([player]) for _ in range(unrolls)]), 0
        while batch := made.next(lambda: next(blocks, None)):
            steps += batch.steps
        return steps

    first, second = (batches(windows, 4, 400, warm_up=30) for _ in range(2))
    before = counted(first, unrolls)
    first.save(tmp_path)
    second.load(tmp_path, has_learned=unrolls > 7)
    assert before + counted(second, 10) == 4 * (unrolls + 10)


def test_a_replay_of_an_earlier_version_that_was_learned_from_needs_no_warm_up(tmp_path):
    windows, player = shape(length=4, n_steps=1, stack=1, burn_in=None), Player(0, 4)
    made = batches(windows, 4, 400, warm_up=60)
    blocks = iter([played([player])])
    assert made.next(lambda: next(blocks, None)) is None
    made.save(tmp_path)
    without(tmp_path / "index.npz", "warm_up")
    for has_learned, left in ((True, 0), (False, 56)):
        assert batches(windows, 4, 400, warm_up=60).load(tmp_path, has_learned=has_learned) == left


def test_a_replay_of_another_level_is_refused_and_the_next_one_begins_empty(tmp_path):
    windows, player = shape(length=4, n_steps=1, stack=1, burn_in=None), Player(0, 4)
    made = batches(windows, 4, 400, warm_up=60)
    updates(made, player, 5)
    made.save(tmp_path, "Pong")
    other = batches(windows, 4, 400, warm_up=60)
    with pytest.raises(UserError, match=r"is the copy of a replay of another level, Pong\.$"):
        other.load(tmp_path, has_learned=True, level_name="Breakout")
    assert other.filled == 0 and updates(other, player, 20) == 20
    same = batches(windows, 4, 400, warm_up=60)
    assert same.load(tmp_path, has_learned=True, level_name="Pong") == 40
    assert same.filled == made.filled > 0
    without(tmp_path / "index.npz", "level")  # as earlier versions wrote it
    assert batches(windows, 4, 400, 60).load(tmp_path, has_learned=True, level_name="Breakout")
    other.save(tmp_path, "Breakout")
    again = batches(windows, 4, 400, warm_up=60)
    again.load(tmp_path, has_learned=True, level_name="Breakout")
    assert again.filled == other.filled


def without(path: Path, name: str) -> None:
    """Removes an array from a file of them."""
    with np.load(path) as file:
        kept = {one: file[one] for one in file.files if one != name}
    np.savez(path, **kept)
