"""The folder of a remote: what ends leaves nothing, and what is killed leaves it to the next."""

import os
import signal
import stat
import subprocess
import sys
import tempfile
import time

import psutil
import pytest

from environments import held_folders
from environments.remote import folder
from tests.environments.realtime.remotes import COMMAND, ROOT, SLOW, STUCK, await_end, remote


@pytest.fixture(autouse=True)
def below(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def test_temporary_files_are_in_it_and_go_with_it(below):
    with folder.made("") as made:
        assert made.parent == below and stat.S_IMODE(made.stat().st_mode) == 0o700
        assert tempfile.mkdtemp().startswith(str(made))
    assert not list(below.iterdir()) and tempfile.gettempdir() == str(below)


def test_what_is_there_is_not_taken(below, one_line):
    def make() -> None:
        with folder.made(str(below / "own")):
            pass

    (below / "own").mkdir()
    one_line(make, "--folder=", "File exists", "at which there is nothing yet")
    assert (below / "own").exists()


def test_a_folder_beside_the_current_one_is_found_from_everywhere(below, monkeypatch):
    monkeypatch.chdir(below)
    with folder.made("own") as made:
        assert made == below / "own"


def test_those_of_others_that_live_stay(below):
    unlocked, left = below / f"{folder.PREFIX}a", below / f"{folder.PREFIX}b"
    with folder.made("") as first:
        tempfile.tempdir = str(below)
        unlocked.mkdir()
        left.mkdir()
        (left / held_folders.LOCK).touch()
        with folder.made(""):
            assert first.exists() and unlocked.exists() and not left.exists()


@pytest.mark.xdist_group("remotes")
def test_the_next_remote_removes_what_a_killed_one_has_left(below):
    with remote("--level_name=Catch-v0") as served:
        served.process.kill()
        served.process.wait()
        assert [*below.glob("*/password")]
        with remote("--level_name=Catch-v0") as other:
            assert [str(one) for one in below.glob("*/password")] == [other.password_file]
    assert not list(below.iterdir())


@pytest.mark.xdist_group("remotes")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_remote_that_is_starting(below, number):
    process = subprocess.Popen(
        [*COMMAND, f"--level_name={SLOW}"], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr
    while not [*below.glob("*/password")]:
        assert process.poll() is None
        time.sleep(0.02)
    os.kill(process.pid, number)
    told = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 0 and told == ""
    assert not list(below.iterdir())


@pytest.mark.xdist_group("remotes")
def test_a_remote_that_is_starting_ends_with_its_parent(below):
    process = subprocess.Popen(
        [*COMMAND, f"--level_name={SLOW}", "--with_parent"], cwd=ROOT, stdin=subprocess.PIPE
    )
    assert process.stdin
    while not [*below.glob("*/password")]:
        assert process.poll() is None
        time.sleep(0.02)
    process.stdin.close()
    assert process.wait() == 0
    assert not list(below.iterdir())


# A remote whose level hangs, and which is not given long to end.
HANGS = f"""
import sys
from environments.remote import __main__ as program

program.ENDS_WITHIN_S = 1
sys.argv = ["serve", "serve", "--level_name={STUCK}", "--with_parent"]
sys.exit(program.main())
"""


@pytest.mark.xdist_group("remotes")
@pytest.mark.parametrize("is_asked", [True, False])
def test_a_level_that_hangs_does_not_outlive_whoever_has_started_it(below, is_asked):
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", HANGS], cwd=ROOT, stdin=pipe, stdout=pipe) as one:
        try:
            assert one.stdin and one.stdout and one.stdout.readline().startswith(b"remote")
            [desktop] = psutil.Process(one.pid).children()
            while not (below / "stuck").exists():
                time.sleep(0.02)
            if is_asked:
                one.terminate()
            else:
                one.stdin.close()
            assert one.wait(60) == -signal.SIGALRM
            await_end(desktop)
        finally:
            one.kill()
