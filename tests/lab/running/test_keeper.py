"""A keeper beside its session: how long it waits, and for what."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.trials import keeper, sessions
from tests.lab.conftest import PROJECT, QUICK, wait_for

REPORTS = """
import os, sys, time
from pathlib import Path
for number in range(1000):
    Path(sys.argv[1]).touch()
    if sys.argv[2:] == ["other clock"]:
        os.utime(sys.argv[1], (number, number))
    if Path("enough").exists():
        break
    time.sleep(0.1)
"""

# It takes a second to write its checkpoint.
SAVES = """
import sys, time
from pathlib import Path
from trainer.programs.stopping import StopSignal
[folder] = [Path(word[9:]) for word in sys.argv if word.startswith("--logdir=")]
with StopSignal() as stop:
    (folder / "ready").touch()
    while not stop.is_set():
        time.sleep(0.01)
    time.sleep(1)
    (folder / "saved").touch()
"""


class Kept:
    """A session with its keeper."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._started: list[subprocess.Popen[bytes]] = []

    def start(
        self, *command: str, timeout_s: float = 0, silent_s: float = 60
    ) -> subprocess.Popen[bytes]:
        """Starts a command beside a keeper, as a lab does."""
        words = [sys.executable, keeper.__file__, str(self.folder), str(timeout_s), str(silent_s)]
        core = min(os.sched_getaffinity(0))
        process = subprocess.Popen(
            [*words, str(core), sys.executable, "-c", *command], cwd=self.folder
        )
        self._started.append(process)
        return process

    @property
    def written(self) -> dict:
        """What the keeper has written last."""
        path = self.folder / keeper.STATE
        return json.loads(path.read_text()) if path.exists() else {}

    def end(self) -> None:
        """Kills what a failed test has left running."""
        for process in [one for one in self._started if one.poll() is None]:
            if child := self.written.get("child"):
                keeper.kill_group(child["pid"])
            process.kill()
            process.wait()


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    """A session's folder."""
    made = Kept(tmp_path)
    yield made
    made.end()


@pytest.mark.parametrize("sign", [("metrics.jsonl", "other clock"), (".lock",)])
def test_signs_of_life_count_whatever_time_their_file_has(kept, sign):
    process = kept.start(REPORTS, *sign, silent_s=1)
    time.sleep(1.7)
    (kept.folder / "enough").touch()
    assert process.wait() == 0
    assert kept.written["code"] == 0 and kept.written["ended_by"] == ""


def test_a_session_that_was_stopped_with_its_keeper_goes_on(kept):
    process = kept.start(REPORTS, "metrics.jsonl", silent_s=2, timeout_s=3.2)
    wait_for(lambda: kept.written.get("child") and (kept.folder / "metrics.jsonl").exists())
    child = kept.written["child"]["pid"]
    for pid in (process.pid, child):
        os.kill(pid, signal.SIGSTOP)
    time.sleep(3)
    os.kill(process.pid, signal.SIGCONT)
    time.sleep(0.4)  # it looks before the session can report
    os.kill(child, signal.SIGCONT)
    (kept.folder / "enough").touch()
    process.wait()
    assert kept.written["code"] == 0 and kept.written["ended_by"] == ""


def test_a_process_is_recognised_by_its_boot_and_the_ticks_since():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    found = keeper.known(process.pid)
    assert keeper.is_alive(found)
    assert not keeper.is_alive(found | {"since": found["since"] - 1})
    assert not keeper.is_alive(found | {"boot": "another"})
    assert not keeper.is_alive(None)
    process.communicate(b"\n")
    assert not keeper.is_alive(found)


def test_a_session_whose_keeper_nobody_knows_runs_on_and_none_is_started_beside_it(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(sessions, "PROJECT", QUICK)
    settings = {"level_name": "CartPole-v1", "total_environment_frames": 3000}
    first = sessions.Session(tmp_path, settings, 1)
    cores = [min(os.sched_getaffinity(0))]
    first.start(cores, 0, 60, sessions.launch_here)
    state = wait_for(lambda: first.written() if first.written().get("child") else None)
    unknown = {name: state[name] | {"since": 1} for name in ("keeper", "child")}
    (tmp_path / keeper.STATE).write_text(json.dumps(state | unknown))
    second, code = sessions.Session(tmp_path, settings, 1), []
    assert second.state() == sessions.WAITING

    def launch(*given):
        process = sessions.launch_here(*given)
        wait_for(lambda: process.poll() is not None)
        code.append(process.poll())
        return process

    second.start(cores, 0, 60, launch)
    assert code == [keeper.BUSY] and second.state() == sessions.RUNNING
    wait_for(lambda: second.state() == sessions.ENDED)
    assert second.end().good and (tmp_path / "starts.txt").read_text() == "1\n"


def test_a_session_is_saved_where_all_processes_are_asked_to_end_at_once(tmp_path, monkeypatch):
    (tmp_path / "experiment.py").write_text(SAVES)
    monkeypatch.setattr(sessions, "PROJECT", tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    session = sessions.Session(tmp_path / "session", {"level_name": "CartPole-v1"}, 1)
    session.start([min(os.sched_getaffinity(0))], 0, 60, sessions.launch_here)
    wait_for((session.folder / "ready").exists)
    state = wait_for(lambda: session.written().get("child") and session.written())
    for number in (signal.SIGTERM, signal.SIGHUP):  # as at the end of a user's session
        for which in ("keeper", "child"):
            os.kill(state[which]["pid"], number)
    wait_for(lambda: session.state() != sessions.RUNNING)
    ended = session.written()
    assert (ended["code"], ended["ended_by"]) == (0, keeper.STOPPED)
    assert (session.folder / "saved").exists() and session.state() == sessions.WAITING


def test_the_time_that_a_session_took_is_that_of_all_its_parts(tmp_path):
    session = sessions.Session(tmp_path, {"level_name": "CartPole-v1"}, 1)
    old = {"state": "ended", "code": 0, "ended_by": "", "started": 100.0, "ended": 110.0}
    for ended, took in ((old | {"ran": 300.0}, 300.0), (old, 10.0)):  # which did not count it
        (tmp_path / keeper.STATE).write_text(json.dumps(ended))
        assert session.took() == took


def test_a_session_that_runs_in_parts_has_its_time_once(kept):
    assert kept.start("pass", timeout_s=3600).wait() == 0
    assert kept.written["ended_by"] == "" and kept.written["ran"] < 3600
    (kept.folder / keeper.STATE).write_text(json.dumps(kept.written | {"ran": 3600}))
    assert kept.start("import time; time.sleep(5)", timeout_s=3600).wait() == 0
    assert kept.written["ended_by"] == keeper.TIMED_OUT and kept.written["ran"] >= 3600
