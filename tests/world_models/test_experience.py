"""Real play: stored whole or not at all, and pieces that never cross an episode's end."""

import errno
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tests.trainer.disks import files_limited_to
from tests.world_models.catch_model import frames
from trainer.storage import npz, played
from trainer.storage.played import Part, Stored
from user_error import UserError
from world_models.training.experience import Experience

# Two episodes of one game: pictures 10 11 12 | 20 21 22 23; the first was terminated.
GAME = Part(
    frames(10, 11, 12, 20, 21, 22, 23),
    np.arange(7, dtype=np.int32)[:, None],
    np.array([[0, 0, -5, 0, 0, 2, 0]], np.float32).T,
    np.array([[0, 0, 1, 0, 0, 0, 0]], bool).T,
    np.array([[1, 0, 0, 1, 0, 0, 0]], bool).T,
)


def bright(stacks: np.ndarray) -> list:
    return stacks.reshape(len(stacks), -1).tolist()


def test_steps_are_counted_without_resets():
    assert GAME.steps == 5


def test_targets_are_steps_and_not_resets():
    assert Experience([GAME], 2).targets.tolist() == [1, 2, 4, 5, 6]


def test_a_window_holds_what_leads_to_its_first_step_and_what_follows():
    found = Experience([GAME], 2).windows(np.array([4, 5]), 2)
    assert bright(found.frames) == [[20, 20, 21, 22], [20, 21, 22, 23]]
    assert found.action.tolist() == [[4, 5], [5, 6]]
    assert found.reward.tolist() == [[0, 2], [2, 0]]
    assert found.valid.tolist() == [[1, 1], [1, 1]]


def test_steps_beyond_an_end_or_the_last_row_are_not_valid():
    found = Experience([GAME], 2).windows(np.array([2, 6]), 2)
    assert found.valid.tolist() == [[1, 0], [1, 0]]
    assert found.end.tolist()[0][0] is True


def test_what_came_before_a_part_is_not_known():
    later = GAME._replace(first=np.array([[0, 0, 0, 1, 0, 0, 0]], bool).T)
    found = Experience([later, GAME], 3)
    # Of the first episode, no target has three pictures before it.
    assert found.targets.tolist() == [4, 5, 6, 8, 9, 11, 12, 13]
    assert found.beginnings.tolist() == [3, 7, 10]


def test_games_beside_each_other_do_not_mix():
    both = Part(*(np.concatenate([array, array], axis=1) for array in GAME))
    found = Experience([both], 2)
    assert found.targets.tolist() == [1, 2, 4, 5, 6, 8, 9, 11, 12, 13]
    assert found.windows(np.array([6]), 2).valid.tolist() == [[1, 0]]


def test_dreams_start_where_a_game_goes_on():
    found, random = Experience([GAME], 2), np.random.default_rng(1)
    starts = {tuple(one) for one in bright(found.starts(200, 0.0, random).stacks)}
    assert starts == {(10, 10), (10, 11), (20, 20), (20, 21), (21, 22), (22, 23)}
    begun = {tuple(one) for one in bright(found.starts(50, 1.0, random).stacks)}
    assert begun == {(10, 10), (20, 20)}


def test_no_dream_starts_where_a_game_did_not_run():
    # It is away, then begins, and is spoilt where the part ends.
    first = np.array([[1, 1, 1, 0, 0, 1]], bool).T
    nothing = np.zeros([6, 1])
    part = Part(
        frames(10, 11, 20, 21, 22, 30),
        nothing.astype(np.int32),
        nothing.astype(np.float32),
        nothing.astype(bool),
        first,
    )
    found, random = Experience([part], 2), np.random.default_rng(1)
    assert found.beginnings.tolist() == [2]
    begun = {tuple(one) for one in bright(found.starts(100, 1.0, random).stacks)}
    assert begun == {(20, 20)}
    anywhere = {tuple(one) for one in bright(found.starts(200, 0.0, random).stacks)}
    assert anywhere == {(20, 20), (20, 21), (21, 22)}
    # The first row of the next part does not follow, also where it is within an episode.
    later = GAME._replace(first=np.array([[0, 0, 0, 1, 0, 0, 0]], bool).T)
    assert Experience([part, later], 2).beginnings.tolist() == [2, 9]


def test_a_start_says_how_much_of_its_past_is_known():
    starts = Experience([GAME], 2).starts(200, 0.0, np.random.default_rng(1), depth=3)
    seen = {(*one, n) for one, n in zip(bright(starts.stacks), starts.earlier, strict=True)}
    assert seen == {
        (10, 10, 10, 0),
        (10, 10, 11, 1),
        (20, 20, 20, 0),
        (20, 20, 21, 1),
        (20, 21, 22, 2),
        (21, 22, 23, 2),
    }


def test_two_who_store_play_at_once_lose_none(tmp_path):
    about = {"level_name": "Catch-v0", "returns": []}

    def write(_: int) -> str:
        return played.store(tmp_path, Stored(GAME, about)).name

    with ThreadPoolExecutor(4) as several:
        names = list(several.map(write, range(12)))
    assert sorted(names) == [f"part-{number:06d}.npz" for number in range(12)]
    assert len(played.read_all(tmp_path, "Catch-v0")) == 12


def test_play_is_read_as_it_was_stored(tmp_path):
    about = {"level_name": "Catch-v0", "returns": [1.0]}
    first = played.store(tmp_path / "play", Stored(GAME, about))
    second = played.store(tmp_path / "play", Stored(GAME, about))
    assert [first.name, second.name] == ["part-000000.npz", "part-000001.npz"]
    found = played.read_all(tmp_path / "play", "Catch-v0")
    assert len(found) == 2 and found[0].about == about
    for mine, theirs in zip(GAME, found[1].part, strict=True):
        assert np.array_equal(mine, theirs) and mine.dtype == theirs.dtype


def test_play_of_another_game_is_refused(tmp_path):
    played.store(tmp_path, Stored(GAME, {"level_name": "Catch-v0"}))
    with pytest.raises(UserError, match=r"Pong.*is play of Catch-v0"):
        played.read_all(tmp_path, "PongNoFrameskip-v4")


def test_a_damaged_part_is_named(tmp_path):
    path = played.store(tmp_path, Stored(GAME, {"level_name": "Catch-v0"}))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"part-000000.npz is damaged .* Delete it"):
        played.read_all(tmp_path, "Catch-v0")


def test_a_part_that_cannot_be_read_is_not_called_damaged(tmp_path, monkeypatch):
    played.store(tmp_path, Stored(GAME, {"level_name": "Catch-v0"}))

    def fails(path: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(npz, "arrays_in", fails)
    with pytest.raises(UserError, match="cannot be read: Permission denied") as error:
        played.read_all(tmp_path, "Catch-v0")
    assert "elete" not in str(error.value)


def test_a_full_disk_loses_only_what_is_being_written(tmp_path):
    about = {"level_name": "Catch-v0"}
    played.store(tmp_path, Stored(GAME, about))
    random = np.random.default_rng(1).integers(0, 256, [7, 1, 90, 90, 1]).astype(np.uint8)
    with files_limited_to(20_000), pytest.raises(UserError, match="could not be written"):
        played.store(tmp_path, Stored(GAME._replace(frames=random), about))
    assert {path.name for path in tmp_path.iterdir()} == {".lock", "part-000000.npz"}
    assert len(played.read_all(tmp_path, "Catch-v0")) == 1
