"""A run's folder belongs to one training at a time."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from trainer.storage import bundles, played
from trainer.storage.checkpoints import Checkpoint
from trainer.storage.folder import LEFT_AFTER_S, LOCK, FolderLock, make_writable, writing
from trainer.storage.records import write_whole
from user_error import NotWritten, UserError

HOLD = """
import sys
import time
from pathlib import Path

from trainer.storage.folder import FolderLock

lock = FolderLock(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(100)
"""


def test_a_second_training_is_refused_until_the_first_releases_the_lock(tmp_path):
    lock = FolderLock(tmp_path)
    with pytest.raises(UserError, match=f"is in use by another training .process {os.getpid()} on"):
        FolderLock(tmp_path)
    lock.release()
    FolderLock(tmp_path).release()


def test_a_killed_process_releases_the_lock(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout and holder.stdout.readline() == "held\n"
    with pytest.raises(UserError, match=f"process {holder.pid} on") as error:
        FolderLock(tmp_path)
    assert "\n" not in str(error.value)
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    FolderLock(tmp_path).release()
    assert (tmp_path / LOCK).read_text().startswith(f"process {os.getpid()} on ")


@pytest.mark.parametrize("where", ["/proc/run", "{}/file", "{}/file/run", "{}/" + "x" * 300])
def test_a_folder_that_cannot_be_written_is_named(tmp_path, where):
    (tmp_path / "file").write_text("a file, not a folder")
    folder = type(tmp_path)(where.format(tmp_path))
    with pytest.raises(UserError) as error:
        make_writable(folder)
    assert str(error.value).startswith(f"--logdir={folder} cannot be written (")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_missing_parent_folders_are_created(tmp_path):
    make_writable(tmp_path / "a" / "b")
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_a_lock_that_cannot_be_written_is_reported_like_the_folder(tmp_path):
    (tmp_path / LOCK).mkdir()
    with pytest.raises(UserError, match=f"--logdir={tmp_path} cannot be written"):
        FolderLock(tmp_path)


@pytest.mark.parametrize(
    ("number", "kind"),
    [(errno.ENOSPC, NotWritten), (errno.EDQUOT, NotWritten), (errno.EIO, UserError)],
)
def test_whoever_started_a_run_can_tell_that_there_was_no_room(tmp_path, number, kind):
    with pytest.raises(UserError, match=os.strerror(number)) as error, writing(tmp_path):
        raise OSError(number, os.strerror(number))
    assert error.value.code == kind.code


def test_a_file_that_does_not_reach_the_disk_is_not_put_in_place(tmp_path, monkeypatch):
    path = tmp_path / "record.json"
    write_whole(path, b"old")

    def fails(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def left(folder: Path, *names: str, minutes: float = 0) -> None:
    """Files that were last written to before a killed process can have left them, and so long."""
    for name in names:
        (folder / name).write_text("half")
        then = time.time() - LEFT_AFTER_S - 60 * minutes
        os.utime(folder / name, (then, then))


def test_what_killed_processes_left_long_ago_is_removed_and_nothing_else(tmp_path):
    kept = ["evaluation.json", ".evaluation.json.tmp", ".hidden", "x.77.tmp"]
    left(tmp_path, *kept, ".settings.json.77.tmp", ".evaluation.json.78.tmp", minutes=1)
    left(tmp_path, ".settings.json.79.tmp", minutes=-1)  # somebody may be writing it
    FolderLock(tmp_path).release()
    assert {path.name for path in tmp_path.iterdir()} == {*kept, ".settings.json.79.tmp", LOCK}


def test_so_is_what_is_left_of_the_same_bundle(tmp_path):
    left(tmp_path, ".pole.npz.77.tmp", ".other.npz.77.tmp", minutes=1)
    bundles.write(Checkpoint({}, {}, {}, {}, {}), tmp_path / "pole.npz")
    assert {path.name for path in tmp_path.iterdir()} == {"pole.npz", ".other.npz.77.tmp"}


def test_so_is_what_those_have_left_that_recorded_play(tmp_path):
    left(tmp_path, ".part-000003.npz.77.tmp", minutes=1)
    rows = np.zeros([2, 1])
    part = played.Part(rows, rows.astype(np.int32), rows, rows > 0, rows > 0)
    path = played.store(tmp_path, played.Stored(part, {}))
    assert {one.name for one in tmp_path.iterdir()} == {path.name, LOCK}
