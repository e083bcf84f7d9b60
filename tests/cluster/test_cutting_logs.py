"""Logs of which only the newest part is kept: nothing of what is left is skipped or shown twice."""

import json
import os
import subprocess
import sys
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.actions import logs
from cluster.on_host import answers
from cluster.on_host.log_file import PARTS, LogFile
from cluster.on_host.processes import boot_id, start_time
from tests.cluster.conftest import ROOT, wait_for

MOST = 400


class Writer:
    """Appends numbered lines to a log that it holds open, as a process does."""

    def __init__(self, path: Path):
        self.count = 0
        self._log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, lines: int) -> None:
        for _ in range(lines):
            os.write(self._log, f"line {self.count}\n".encode())
            self.count += 1

    def close(self) -> None:
        os.close(self._log)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["write", "cut", "read"]), st.integers(1, 12))))
def test_a_reader_gets_every_line_once_whenever_the_log_is_cut(tmp_path_factory, steps):
    path = tmp_path_factory.mktemp("log") / "a.log"
    writer, log = Writer(path), LogFile(path)
    offset, text = 0, b""
    for what, count in [*steps, ("read", 12)]:
        if what == "write":
            # Not more than what is kept, between two looks.
            begin, data = log.read(offset, 10**6)
            offset, text = begin + len(data), text + data
            writer.write(count)
        elif what == "cut":
            log.cut(MOST)
        else:
            begin, data = log.read(offset, 10 * count)
            offset, text = begin + len(data), text + data
    text += log.read(offset, 10**6)[1]
    writer.close()
    assert text.decode().splitlines() == [f"line {number}" for number in range(writer.count)]


def test_only_the_newest_part_is_kept_and_its_end_is_found(tmp_path: Path):
    path = tmp_path / "a.log"
    writer, log = Writer(path), LogFile(path)
    for _ in range(200):
        writer.write(5)
        log.cut(MOST)
        files = [path, *(tmp_path / "a.older").glob("*")]
        assert sum(file.stat().st_size for file in files) < MOST + 100 and len(files) <= PARTS
    assert path.stat().st_size < MOST // PARTS
    assert log.end() == sum(len(f"line {number}\n") for number in range(1000))
    assert answers.last_lines(path, 20) == [f"line {number}" for number in range(980, 1000)]
    # Who asks for what is gone gets what is left.
    begin, data = log.read(0, 10**6)
    assert begin > 0 and data.endswith(b"line 999\n") and begin + len(data) == log.end()


def test_a_cut_during_which_the_keeper_is_killed_is_ended_by_the_next(tmp_path: Path):
    path = tmp_path / "a.log"
    writer, log = Writer(path), LogFile(path)
    writer.write(50)
    whole = path.read_bytes()
    (tmp_path / "a.older").mkdir()
    # Killed while it copied: the log still has all of it.
    (tmp_path / "a.older" / "copy").write_bytes(whole[:100])
    assert log.read(0, 10**6) == (0, whole)
    # Killed once the log was empty: the copy has it.
    (tmp_path / "a.older" / "copy").write_bytes(whole)
    os.truncate(path, 0)
    writer.write(1)
    assert log.read(0, 10**6) == (0, whole + b"line 50\n")
    writer.write(20)
    after = log.read(0, 10**6)
    log.cut(MOST)
    assert log.read(0, 10**6) == after
    assert [one.name for one in (tmp_path / "a.older").iterdir() if "copy" in one.name] == []


CHILD = """
import pathlib, time
for number in range(400):
    while number - int(pathlib.Path("seen").read_text() or 0) > 80:  # what a log keeps at least
        time.sleep(0.01)
    print(f"line {number}", flush=True)
    time.sleep(0.005)
time.sleep(60)
"""


def test_a_keeper_keeps_a_log_within_its_limit_while_it_is_followed(tmp_path: Path):
    spec = {
        "name": "a", "argv": [sys.executable, "-u", "-c", CHILD], "env": (), "restarts": 0,
        "under_mpirun": False, "grace_s": 1, "run_id": "r", "folder": str(tmp_path),
        "state": str(tmp_path / "a.json"), "log": str(tmp_path / "a.log"), "log_bytes": 1200,
    }  # fmt: skip
    (tmp_path / "seen").write_text("0")
    (tmp_path / "a.spec.json").write_text(json.dumps(spec))
    command = [sys.executable, "-m", "cluster.on_host.keeper", str(tmp_path / "a.spec.json")]
    keeper = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    seen, offset = "", 0
    request = {"records": tmp_path, "run_id": "r", "offsets": {"a": 0}, "alive": ["a"]}
    try:

        def followed() -> bool:
            nonlocal seen, offset
            told = answers.tail({**request, "offsets": {"a": offset}})["logs"].get("a")
            if told:
                seen, offset = seen + told["text"], told["offset"]
                (tmp_path / "seen").write_text(str(seen.count("\n")))
            return "line 399\n" in seen

        wait_for(followed)
    finally:
        keeper.terminate()
        shown = keeper.communicate(timeout=60)[0]
    assert len(list((tmp_path / "a.older").iterdir())) == PARTS - 1
    for text in (seen, shown):
        numbers = [int(line.split()[1]) for line in text.splitlines()]
        # A line that comes in the moment of a cut may be lost; none is shown twice or cut up.
        assert numbers == sorted(set(numbers)) and len(numbers) > 390


def test_follow_goes_on_after_a_cut(tmp_path: Path, capsys):
    path = tmp_path / "a.log"
    writer, log = Writer(path), LogFile(path)
    alive: dict = {"state": "running", "run_id": "r", "boot_id": boot_id()}
    alive["keeper"] = [os.getpid(), start_time(os.getpid())]
    (tmp_path / "a.json").write_text(json.dumps(alive))
    offset, lines = -logs.SHOWN_BYTES, []
    for _ in range(30):
        writer.write(7)
        told = answers.tail({"records": tmp_path, "run_id": "r", "offsets": {"a": offset}})
        offset = told["logs"]["a"]["offset"]
        lines += told["logs"]["a"]["text"].splitlines()
        log.cut(MOST)
    assert lines == [f"line {number}" for number in range(210)]
