"""Sessions on other machines, for which processes stand in: lost, stopped, and never twice."""

import dataclasses
import errno
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from typing import Any

import psutil
import pytest
import sqlalchemy
from optuna.exceptions import StorageInternalError

from lab.actions import starting
from lab.running import room
from lab.running import runner as runners
from lab.running.nodes import Placed
from lab.running.progress import Progress
from lab.running.runner import Runner
from lab.specs.meta import Resources
from lab.trials import claims, keeper, sessions
from lab.trials.folder import Experiment
from tests.lab.conftest import QUICK, wait_for
from trainer.storage.checkpoints import Checkpoint, Store
from trainer.storage.records import read_metrics
from user_error import UserError

# As a node of Ray does it: a process that waits for its child.
NODE = "import subprocess, sys; subprocess.call(sys.argv[1:])"


class Machines:
    """Machines with room for one session each; ``lose`` is a power cut of one."""

    def __init__(self, count):
        self.alive: list[Any] = [None] * count

    def count(self):
        return len(self.alive)

    def start(self, session, slot, meta):
        session.start(1, 0.0, 60.0, lambda words, more: self._launch(slot, words, more))

    def of(self, session):
        return None

    def _launch(self, slot, words, more):
        environment = os.environ | dict(more)
        self.alive[slot] = subprocess.Popen([sys.executable, "-c", NODE, *words], env=environment)
        return self.alive[slot]

    def lose(self):
        """Kills a machine and all that runs there."""
        lost = psutil.Process(self.alive.pop().pid)
        for process in [lost, *lost.children(recursive=True)]:
            process.kill()


@pytest.fixture
def experiment(lab, monkeypatch):
    """A search of four trials whose sessions take some seconds."""
    monkeypatch.setattr(sessions, "PROJECT", QUICK)
    content = {
        "level": "CartPole-v1",
        "settings": {"total_environment_frames": 10_000},
        "meta": {"trials": 4, "search": "random", "finalists": 0, "objective": "best_return"},
        "search": {"settings": {"learning_rate__loguniform": [0.0001, 0.005]}},
    }
    spec, extra = starting.prepare("search", lab.write(content), "")
    return Experiment.create(spec, "search", lab.data, extra)


def frames(experiment, name):
    rows = read_metrics(experiment.folder / "sessions" / name)
    return [row["environment_frames"] for row in rows]


def test_what_ran_on_a_lost_machine_goes_on_elsewhere_and_nothing_runs_twice(lab, experiment):
    machines = Machines(3)
    runner = Runner(experiment, machines, Progress("lost"))
    running = threading.Thread(target=runner.run)
    running.start()
    wait_for((experiment.folder / "sessions/t2_s0/metrics.jsonl").exists)
    machines.lose()
    running.join()
    assert [trial.state for trial in experiment.trials()] == ["done"] * 4
    assert sorted(map(len, lab.starts().values())) == [1, 1, 1, 2]
    for name in lab.starts():  # it went on where it was
        assert frames(experiment, name) == list(range(1000, 10_001, 1000))


class Broken(Machines):
    """Machines on which no keeper gets as far as its session."""

    def _launch(self, slot, words, more):
        self.alive[slot] = subprocess.Popen(["false"])
        return self.alive[slot]


def test_what_never_begins_is_a_failed_trial_and_not_started_for_ever(lab, experiment):
    assert Runner(experiment, Broken(3), Progress("broken")).run()
    found = [(trial.state, trial.reason) for trial in experiment.trials()]
    reason = "s0: not begun after 3 starts: its keeper ended with 1"
    assert found == [("failed", reason)] * 4


def test_starts_count_only_in_a_row_and_only_those_that_have_not_begun(tmp_path):
    ended = subprocess.Popen(["true"])
    ended.wait()
    session = sessions.Session(tmp_path, {"level_name": "CartPole-v1"}, 1)
    state = {"state": "running", "keeper": None, "child": {"pid": 1, "since": None}}
    for began in (False, False, True, False, False):
        session.start([0], 0.0, 60.0, lambda *_: ended)
        if began:
            (tmp_path / keeper.STATE).write_text(json.dumps(state))
        assert not session.never_begins()
    # One that has written that it runs, but could not start the session's own process.
    session.start([0], 0.0, 60.0, lambda *_: ended)
    (tmp_path / keeper.STATE).write_text(json.dumps(state | {"child": None}))
    assert session.never_begins() == "not begun after 3 starts: its keeper ended with 0"


def test_a_task_of_ray_says_how_it_has_ended():
    class Ray:
        def get(self, task):
            if isinstance(task, Exception):
                raise task
            return task

    lost = RuntimeError("a traceback\nof many lines")
    assert Placed(Ray(), 1).problem == "its keeper ended with 1"
    assert Placed(Ray(), lost).problem == "RuntimeError: a traceback"
    lost.cause = FileNotFoundError("no such folder")  # type: ignore[attr-defined]
    assert Placed(Ray(), lost).problem == "FileNotFoundError: no such folder"


def test_a_keeper_that_cannot_claim_anything_takes_what_others_may_have(tmp_path, monkeypatch):
    monkeypatch.setattr(claims.tempfile, "tempdir", str(tmp_path / "nowhere"))
    assert claims.claim(1) == sorted(os.sched_getaffinity(0))[:1]
    assert claims.claim_gpu(["0", "1"]) in ("0", "1")


@pytest.fixture
def measured(experiment):
    """The search, of which random play is known."""
    known = {"CartPole-v1": {"return": 20.0, "deviation": 1.0, "episodes": 100}}
    (experiment.folder / "random_play.json").write_text(json.dumps(known))
    return experiment


def test_a_study_that_is_damaged_is_one_line(measured):
    study = measured.folder / "study.sqlite3"
    study.write_bytes(b"junk" * 1000)
    with pytest.raises(UserError) as told:
        Runner(measured, Machines(1), Progress("damaged")).run()
    assert str(told.value).startswith(f"{study}: found no study (file is not a database); expected")
    assert "\n" not in str(told.value) and study.read_bytes() == b"junk" * 1000


def test_what_is_no_matter_of_the_disk_is_not_waited_for(measured):
    runner = Runner(measured, Machines(1), Progress("twice"))
    with pytest.raises(UserError, match="found no study \\(Multiple rows"):
        runner._room.wait(sqlalchemy.exc.MultipleResultsFound("Multiple rows were found"))


def test_a_disk_that_is_full_at_the_start_or_the_end_of_a_search_is_waited_for(
    measured, monkeypatch, capsys
):
    full = sqlite3.OperationalError("database or disk is full")
    wrapped = StorageInternalError("an exception is raised during the commit")
    wrapped.__cause__ = full
    fails = [full, wrapped, None, OSError(errno.ENOSPC, "No space left on device")]
    opened, finish = runners.proposing.Proposals, measured.finish

    def unless_full(then):
        def call(*words):
            if error := fails.pop(0) if fails else None:
                raise error
            return then(*words)

        return call

    monkeypatch.setattr(runners.proposing, "Proposals", unless_full(opened))
    monkeypatch.setattr(measured, "finish", unless_full(finish))
    monkeypatch.setattr(room, "PAUSE_S", 0.01)
    runner = Runner(measured, Machines(1), Progress("full"))
    monkeypatch.setattr(runner, "_step", lambda: True)
    assert runner.run() and measured.result()["state"] == "finished" and not fails
    said = capsys.readouterr().out
    assert said.count("cannot be written (database or disk is full)") == 1
    assert said.count("cannot be written (No space left on device)") == 1


def test_an_attempt_for_whose_record_there_was_no_room_is_not_lost(measured, monkeypatch):
    measured.spec = dataclasses.replace(
        measured.spec, meta=dataclasses.replace(measured.spec.meta, retries=1)
    )
    runner = Runner(measured, Machines(1), Progress("full"))
    assert runner._begin()
    [trial] = runner._new_trials()
    runner._trials.append(trial)
    [session] = measured.sessions(trial)
    session.folder.mkdir(parents=True)
    ended = {"state": "ended", "code": 2, "ended_by": "", "started": 0.0, "ended": 1.0}
    (session.folder / keeper.STATE).write_text(json.dumps(ended))

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched, pytest.raises(OSError):
        patched.setattr(measured, "save", full)
        runner._look_at(trial)
    runner._look_at(trial)
    assert trial.state == "open" and session.state() == sessions.WAITING


def test_a_disk_that_stays_full_is_one_line(tmp_path):
    waiting = room.Room(tmp_path, print)
    waiting._paused_since = time.monotonic() - 2 * room.GIVE_UP_S
    full = sqlite3.OperationalError("database or disk is full")
    error = sqlalchemy.exc.OperationalError("INSERT INTO trials", {}, full)
    error.__cause__ = full
    with pytest.raises(UserError) as told:
        waiting.wait(error)
    assert "\n" in str(error) and "\n" not in str(told.value)
    assert "for 30 minutes (database or disk is full). Sessions run on" in str(told.value)


def keeping(folder, *command, **options):
    words = [sys.executable, keeper.__file__, str(folder), "0", "60", "+1", *command]
    return subprocess.Popen([sys.executable, "-c", NODE, *words], **options)


def state_of(folder):
    try:
        return json.loads((folder / keeper.STATE).read_text())
    except OSError:
        return {}


ENDS_WELL = """
import os, pathlib, signal, sys, time
def end(*_):
    pathlib.Path("saved").write_text("")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
pathlib.Path("ready").write_text(str(sorted(os.sched_getaffinity(0))))
while True:
    time.sleep(0.1)
"""


def test_a_session_elsewhere_is_saved_when_what_started_it_is_killed(tmp_path):
    node = keeping(tmp_path, sys.executable, "-c", ENDS_WELL, cwd=tmp_path)
    wait_for((tmp_path / "ready").exists)
    state = wait_for(lambda: state_of(tmp_path))
    node.kill()
    node.wait()
    ended = wait_for(lambda: state_of(tmp_path)["state"] == "ended" and state_of(tmp_path))
    assert ended["ended_by"] == "stopped" and (tmp_path / "saved").exists()
    assert not keeper.is_alive(state["child"])


def test_it_is_saved_when_its_keeper_is_killed_and_until_then_no_other_starts(tmp_path):
    slow = ENDS_WELL.replace("def end(*_):", "def end(*_):\n    time.sleep(1)")
    node = keeping(tmp_path, sys.executable, "-c", slow, cwd=tmp_path)
    wait_for((tmp_path / "ready").exists)
    state = wait_for(lambda: state_of(tmp_path))
    os.kill(state["keeper"]["pid"], signal.SIGKILL)
    node.wait()
    look = "import os, pathlib; pathlib.Path('second').write_text(str(os.path.exists('saved')))"
    keeping(tmp_path, sys.executable, "-c", look, cwd=tmp_path).wait()
    assert (tmp_path / "second").read_text() == "True"


def test_sessions_on_one_machine_have_cores_of_their_own(tmp_path, monkeypatch):
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("needs two cores")
    folders = [tmp_path / "one", tmp_path / "two"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    nodes = []
    for folder in folders:
        folder.mkdir()
        command = [sys.executable, "-c", ENDS_WELL]
        nodes.append(keeping(folder, *command, cwd=folder, env=environment))
        wait_for((folder / "ready").exists)
    found = [wait_for((folder / "ready").read_text) for folder in folders]
    assert sorted(found) == [str([core]) for core in cores[:2]]
    for node in nodes:
        node.kill()
        node.wait()
    for folder in folders:
        wait_for(lambda: state_of(folder).get("state") == "ended")  # noqa: B023


SEES = """
import os, pathlib, time
pathlib.Path("sees").write_text(os.environ.get("CUDA_VISIBLE_DEVICES", "any"))
time.sleep(1000)
"""
GPUS = """\
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-11-aa)
  MIG 3g.40gb     Device  0: (UUID: MIG-22-bb)
  MIG 3g.40gb     Device  1: (UUID: MIG-33-cc)
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-44-dd)
"""


def gpus_seen(folder, count, **environment):
    """What sessions see that are started one after the other; the first ends before the last."""
    folder.mkdir()
    environment = {**os.environ, "TMPDIR": str(folder), **environment}
    seen: list[str] = []
    nodes: list[subprocess.Popen[bytes]] = []
    for number in range(count):
        if number == count - 1:
            nodes[0].kill()
            wait_for(lambda: state_of(folder / "0").get("state") == "ended")
        (own := folder / str(number)).mkdir()
        nodes.append(keeping(own, sys.executable, "-c", SEES, cwd=own, env=environment))
        seen.append(wait_for(lambda: (own / "sees").exists() and (own / "sees").read_text()))
    for node in nodes:
        node.kill()
        node.wait()
    return seen


def test_sessions_on_one_machine_each_see_one_gpu(tmp_path):
    smi = tmp_path / "nvidia-smi"
    smi.write_text(f"#!/bin/sh\ncat <<'END'\n{GPUS}END\n")
    smi.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    first, second, third, *more = gpus_seen(tmp_path / "all", 5, PATH=path)
    assert [first, second, third] == ["MIG-22-bb", "MIG-33-cc", "GPU-44-dd"]
    assert more == [first, first]  # of which one is free again
    assert gpus_seen(tmp_path / "two", 3, PATH=path, CUDA_VISIBLE_DEVICES="5, 7") == ["5", "7", "5"]


@pytest.mark.parametrize("given", ["-1", "3", None])
def test_nothing_changes_without_several_gpus(tmp_path, monkeypatch, given):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    more = {"PATH": str(tmp_path)} | ({} if given is None else {"CUDA_VISIBLE_DEVICES": given})
    assert gpus_seen(tmp_path / "none", 2, **more) == [given or "any"] * 2


def test_a_session_that_runs_on_another_host_is_not_looked_for_here(tmp_path):
    session = sessions.Session(tmp_path, {"level_name": "CartPole-v1"}, 1)
    me = keeper.known(os.getpid())
    written = {"state": "running", "started": 0.0, "keeper": me, "child": me}
    (tmp_path / keeper.STATE).write_text(json.dumps(written | {"host": "another"}))
    assert session.state() == sessions.WAITING
    session.stop()  # signals nobody here
    (tmp_path / keeper.STATE).write_text(json.dumps(written))
    assert session.state() == sessions.RUNNING


def test_a_copy_of_a_session_has_no_process(tmp_path):
    path, copy = tmp_path / "mine", tmp_path / "copy"
    path.mkdir()
    kept = keeping(path, "sleep", "60")
    wait_for((path / keeper.STATE).exists)
    shutil.copytree(path, copy)
    found = [sessions.Session(one, {"level_name": "CartPole-v1"}, 1) for one in (path, copy)]
    assert [one.state() for one in found] == [sessions.RUNNING, sessions.WAITING]
    found[1].stop()
    assert found[0].state() == sessions.RUNNING and kept.poll() is None
    moved = path.rename(tmp_path / "moved")
    session = sessions.Session(moved, {"level_name": "CartPole-v1"}, 1)
    assert session.state() == sessions.RUNNING
    session.stop()
    moved.rename(path)  # where it writes how it ended
    assert kept.wait() == 0 and state_of(path)["ended_by"] == keeper.STOPPED


@pytest.mark.parametrize(("passed_s", "left_s"), [(None, 60.0), (45.5, 14.5), (70.0, 0.001)])
def test_a_session_that_goes_on_has_the_seconds_that_are_left(tmp_path, passed_s, left_s):
    # What has been done since the newest checkpoint is done again.
    row = {"environment_frames": 10, "wall_time": 59.0}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    if passed_s:
        kept = {"environment_frames": 10, "wall_time": passed_s}
        Store(tmp_path / "checkpoints", keep=1).save(Checkpoint({}, {}, {}, kept, {}))
    started = []

    def launch(words, environment):
        started.extend(words)

    settings = {"level_name": "CartPole-v1", "stop_after_s": 60.0}
    sessions.Session(tmp_path, settings, 1).start([0], 0.0, 60.0, launch)
    assert f"--stop_after_s={left_s}" in started


class Options:
    engine, ray_address, cores = "ray", "", 0


def test_mistakes_about_ray_are_one_line(monkeypatch):
    def refused(**options):
        with pytest.raises(UserError) as told:
            starting.places_of(Resources(cores=2), type("Given", (Options,), options))
        assert "\n" not in str(told.value)
        return str(told.value)

    monkeypatch.setitem(sys.modules, "ray", None)
    assert refused() == "--engine=ray needs Ray: run bin/setup --extra=ray."
    assert "expected HOST:PORT" in refused(ray_address="there")
    assert "expected HOST:PORT" in refused(ray_address="there:²")  # which is a digit, too
    assert "found nothing that answers there" in refused(ray_address="127.0.0.1:1")
    for engine in ("ray", "local"):
        said = refused(engine=engine, cores=1)
        assert said.startswith(
            "--cores=1: expected at least 2, the cores of a session by meta.reso"
        )
    assert "expected --engine=ray beside it" in refused(engine="local", ray_address="a:1")
