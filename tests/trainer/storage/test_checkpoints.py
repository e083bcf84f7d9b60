"""Checkpoints are read back as written; whatever damages a file, a complete one is found."""

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.storage import checkpoints, npz
from trainer.storage.checkpoints import Checkpoint, Store
from user_error import UserError


def checkpoint(frames: int) -> Checkpoint:
    random = np.random.default_rng(frames)
    return Checkpoint(
        weights={
            f"layer_{len(shape)}/{shape[0]}": random.normal(size=shape).astype(np.float32)
            for shape in ((8, 3), (1,), (5,))
        },
        optimizer={
            "second/layer": random.normal(size=[8, 3]).astype(np.float32),
            "first": np.array(frames, np.float32),
        },
        algorithm={"popart_mean": random.normal(size=[2]).astype(np.float32)},
        counters={"environment_frames": frames, "updates": frames // 10, "best_return": None},
        settings=checkpoints.UNNAMED
        | {"agent_name": "VectorAgent", "popart": True, "activation": "auto"},
    )


def assert_same(one: Checkpoint, other: Checkpoint) -> None:
    assert (one.counters, one.settings) == (other.counters, other.settings)
    for group in checkpoints.GROUPS:
        mine, theirs = getattr(one, group), getattr(other, group)
        assert list(mine) == list(theirs)
        for a, b in zip(mine.values(), theirs.values(), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)


def never(warning: str) -> None:
    raise AssertionError(warning)


def found_in(store: Store, warn: Callable[[str], None]) -> tuple[Path, Checkpoint]:
    """The newest checkpoint, which must exist."""
    found = store.newest(warn)
    assert found is not None
    return found


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "checkpoints", keep=3)


def frames_kept(store: Store) -> list[int]:
    return [int(path.stem.removeprefix("frames-")) for path in store.numbered()]


def test_a_checkpoint_is_read_back_as_written(store):
    path = store.save(checkpoint(1000))
    assert_same(checkpoints.read(path), checkpoint(1000))


def test_more_than_ten_arrays_keep_their_order(store):
    many = checkpoint(1)
    many.weights = {f"layer_{i}": np.array([i]) for i in range(1200)}
    assert_same(checkpoints.read(store.save(many)), many)


@pytest.mark.parametrize(
    ("agent", "activation"),
    [("VectorLSTMAgent", "tanh"), ("ResNetAgent", "auto"), ("my_agent:Wide", "auto")],
)
def test_networks_had_tanh_before_there_was_a_choice(store, agent, activation):
    saved = checkpoint(1)
    saved.settings["agent_name"] = agent
    del saved.settings["activation"]
    store.save(saved)
    assert found_in(store, never)[1].settings["activation"] == activation


@pytest.mark.parametrize(("agent", "channels"), [("VectorAgent", ""), ("ResNetAgent", "8,16")])
def test_channels_that_had_no_effect_are_not_asked_for_again(store, agent, channels):
    saved = checkpoint(1)
    saved.settings |= {"agent_name": agent, "channels": "8,16"}
    store.save(saved)
    assert found_in(store, never)[1].settings["channels"] == channels


def test_the_newest_checkpoints_and_the_best_are_kept(store):
    store.save_best(checkpoint(100))
    for frames in (100, 900, 1000, 20_000):
        store.save(checkpoint(frames))
    assert frames_kept(store) == [20_000, 1000, 900]
    path, newest = store.newest(never)
    assert (path, newest.counters["environment_frames"]) == (store.numbered()[0], 20_000)
    for which, frames in (("newest", 20_000), ("best", 100), ("900", 900), (str(path), 20_000)):
        assert store.find(which, never)[1].counters["environment_frames"] == frames


def test_frames_are_compared_as_numbers(store):
    for frames in (9 * 10**15, 10**16, 5):
        store.save(checkpoint(frames))
    assert frames_kept(store) == [10**16, 9 * 10**15, 5]


def test_a_checkpoint_with_the_same_frames_replaces_the_old_one(store):
    store.save(checkpoint(10))
    other = checkpoint(10)
    other.counters["updates"] = 77
    store.save(other)
    assert len(store.numbered()) == 1
    assert store.newest(never)[1].counters["updates"] == 77


def test_a_folder_without_checkpoints(store):
    assert store.newest(never) is None
    with pytest.raises(UserError, match="there is no checkpoint in .*--logdir"):
        store.find("newest", never)


def test_the_error_for_a_missing_checkpoint_lists_the_available_ones(store):
    store.save(checkpoint(10))
    for which in "99", "²":
        with pytest.raises(UserError, match=rf"--checkpoint={which}: there is no file .*: 10\."):
            store.find(which, never)


def overwrite(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def falls_back(store: Store, content: bytes) -> bool:
    """Whether a newest file with this content is skipped in favour of the previous one."""
    overwrite(store.numbered()[0], content)
    warnings: list[str] = []
    _, found = found_in(store, warnings.append)
    frames = found.counters["environment_frames"]
    assert_same(found, checkpoint(frames))  # damaged data is never returned
    assert (frames == 2000) == (not warnings)
    assert all("is damaged" in one and "\n" not in one for one in warnings)
    return frames == 1000


def test_a_newest_file_truncated_anywhere_is_skipped(store):
    store.save(checkpoint(1000))
    whole = store.save(checkpoint(2000)).read_bytes()
    for length in range(len(whole)):
        assert falls_back(store, whole[:length]), length
    assert not falls_back(store, whole)


def test_no_flipped_byte_makes_damaged_data_be_used(store):
    store.save(checkpoint(1000))
    whole = store.save(checkpoint(2000)).read_bytes()
    noticed = 0
    for at in range(len(whole)):
        content = bytearray(whole)
        content[at] ^= 1 << at % 8
        noticed += falls_back(store, bytes(content))
    # What goes unnoticed has no effect, such as timestamps.
    assert noticed > 0.8 * len(whole)


@settings(max_examples=150)
@given(data=st.data())
def test_no_random_damage_makes_damaged_data_be_used(tmp_path_factory, data):
    store = Store(tmp_path_factory.mktemp("run"), keep=3)
    store.save(checkpoint(1000))
    content = bytearray(store.save(checkpoint(2000)).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(content) - 1))
        piece = data.draw(st.binary(max_size=300))
        content[start : start + data.draw(st.integers(0, 300))] = piece
        content = content or bytearray(b"?")
    falls_back(store, bytes(content))


def reading(monkeypatch: pytest.MonkeyPatch, before: Callable[[Path], None]) -> None:
    """Calls ``before`` with each file that is going to be read."""
    arrays_in = npz.arrays_in

    def read(path: Path) -> dict[str, np.ndarray]:
        before(path)
        return arrays_in(path)

    monkeypatch.setattr(npz, "arrays_in", read)


@pytest.mark.parametrize(
    ("error", "reason"),
    [(OSError(errno.EIO, "Input/output error"), "Input/output error"), (MemoryError(), "memory")],
)
def test_no_older_file_takes_the_place_of_one_that_cannot_be_read(
    store, monkeypatch, error, reason
):
    store.save_best(checkpoint(500))
    for frames in (1000, 2000):
        store.save(checkpoint(frames))

    def fails(path: Path) -> None:
        raise error

    reading(monkeypatch, fails)
    told = rf"frames-0*2000\.npz cannot be read: .*{reason}"
    with pytest.raises(UserError, match=told) as found:
        store.newest(never)
    assert "damaged" not in str(found.value)
    with pytest.raises(UserError, match=told):
        store.find("2000", never)
    with pytest.raises(UserError, match=r"best\.npz cannot be read"):
        store.best(never)


def test_an_error_without_a_number_is_of_what_unpacks_damaged_bytes():
    npz.refuse_unread(Path("a.npz"), OSError("Invalid data stream"))  # as bz2 says it


def test_a_file_that_was_removed_before_it_was_read_is_passed_over(store, monkeypatch):
    for frames in (1000, 2000):
        store.save(checkpoint(frames))
    gone = store.numbered()[0]
    reading(monkeypatch, lambda path: path.unlink() if path == gone else None)
    warnings: list[str] = []
    assert found_in(store, warnings.append)[1].counters["environment_frames"] == 1000
    assert warnings == [f"{gone} has been removed; falling back to the previous checkpoint."]


def test_the_best_is_used_when_all_others_are_damaged(store):
    store.save_best(checkpoint(1000))
    for frames in (2000, 3000):
        overwrite(store.save(checkpoint(frames)), b"")
    warnings: list[str] = []
    assert store.newest(warnings.append)[1].counters["environment_frames"] == 1000
    assert len(warnings) == 2


def test_a_run_does_not_start_from_scratch_over_unreadable_checkpoints(store):
    for frames in (1, 2):
        overwrite(store.save(checkpoint(frames)), b"PK")
    with pytest.raises(UserError, match="none of the 2 checkpoints .* can be read"):
        store.newest(lambda warning: None)


def test_damaged_checkpoints_never_displace_good_ones(store):
    store.save(checkpoint(500))
    for frames in (1000, 2000, 3000):
        overwrite(store.save(checkpoint(frames)), b"damaged")
    store.save_best(checkpoint(500))
    for frames in (600, 700):
        store.save(checkpoint(frames))
        found = store.newest(lambda warning: None)
        assert found[1].counters["environment_frames"] == frames
    for frames in (3100, 3200, 3300):
        store.save(checkpoint(frames))
    assert frames_kept(store) == [3300, 3200, 3100]


def test_foreign_files_and_leftovers_are_ignored_and_leftovers_removed(store):
    store.save(checkpoint(10))
    foreign = ["notes.txt", "frames-.npz", "frames-99.npz.bak", "myframes-99.npz", "other.npz"]
    leftover = f".frames-{99:015d}.npz.12345.tmp"
    for name in (*foreign, leftover):
        (store.folder / name).write_bytes(b"?")
    (store.folder / "folder").mkdir()
    assert frames_kept(store) == [10]
    assert store.newest(never)[1].counters["environment_frames"] == 10
    store.remove_leftovers()
    left = {path.name for path in store.folder.iterdir()}
    assert leftover not in left and left >= {*foreign, "folder"}


FULL = """
import resource
import sys
from pathlib import Path

from trainer.storage.checkpoints import Store
from tests.trainer.storage.test_checkpoints import checkpoint

store = Store(Path(sys.argv[1]), keep=3)
store.save(checkpoint(1000))
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), -1))
try:
    store.save(checkpoint(2000))
except OSError as error:
    print("refused:", error.strerror)
"""


@pytest.mark.parametrize("room", [0, 1, 200, 1000, 2400])
def test_a_full_disk_leaves_earlier_checkpoints_untouched(store, room):
    ended = subprocess.run(
        [sys.executable, "-c", FULL, str(store.folder), str(room)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout == "refused: File too large\n"
    assert [path.name for path in store.folder.iterdir()] == [f"frames-{1000:015d}.npz"]
    assert_same(store.newest(never)[1], checkpoint(1000))


def test_saving_to_a_folder_that_cannot_be_written_raises_os_error(store):
    store.folder.parent.mkdir(exist_ok=True)
    store.folder.write_bytes(b"a file where the folder should be")
    with pytest.raises(OSError):
        store.save(checkpoint(1))
    assert os.path.isfile(store.folder)


def test_checkpoints_are_written_even_if_folders_cannot_be_flushed(store, monkeypatch):
    def files_only(descriptor: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "fsync", files_only)
    assert_same(checkpoints.read(store.save(checkpoint(1000))), checkpoint(1000))


def test_saving_succeeds_even_if_an_old_checkpoint_cannot_be_removed(store):
    (store.folder / f"frames-{5:015d}.npz").mkdir(parents=True)
    for frames in (10, 20, 30, 40):
        store.save(checkpoint(frames))
    assert frames_kept(store) == [40, 30, 20, 5]


def test_an_old_checkpoint_with_numbers_instead_of_names_is_still_read(tmp_path):
    arrays = [np.full([2], number, np.float32) for number in (0, 1, 2, 3, 4, 41, 6)]
    numbered: dict[str, Any] = {f"weights_{i:04d}": arrays[i] for i in range(2)}
    numbered |= {f"optimizer_{i:04d}": arrays[2 + i] for i in range(5)}
    about = {"counters": {"environment_frames": 8}, "settings": {"popart": True}}
    np.savez(
        tmp_path / "frames-000000000000008.npz",
        about=np.frombuffer(json.dumps(about).encode(), np.uint8),
        **numbered,
    )
    found = checkpoints.read(tmp_path / "frames-000000000000008.npz")
    assert [value[0] for value in found.weights.values()] == [0, 1]
    assert [value[0] for value in found.optimizer.values()] == [2, 3]
    assert {name: value[0] for name, value in found.algorithm.items()} == {
        "popart_mean": 4,
        "popart_variance": 41 - 4**2,
        "popart_seen": 6,
    }
