"""A run that is stopped while it is being started, here, with real tmux and mpirun."""

import errno
import json
import os
import signal
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from cluster import record as records
from cluster.actions.seen import UNSEEN, Seen, SeenPart
from cluster.backends.ssh import hosts as asking
from cluster.backends.ssh import looking, starting
from cluster.backends.ssh.hosts import Hosts
from cluster.model import Host, Mpirun, Place, Plan, Process
from cluster.on_host import keeper
from cluster.options import Options
from cluster.ssh.failures import HostFailed
from tests.cluster.conftest import ROOT, Frontend, wait_for
from tests.cluster.local.runs import EXAMPLE, ON_THIS_MACHINE

pytestmark = ON_THIS_MACHINE


def test_a_stop_while_the_run_is_being_started_leaves_nothing(frontend: Frontend):
    frontend.csv(*EXAMPLE)
    starting = subprocess.Popen(
        frontend.command("start"),
        cwd=frontend.folder,
        env=frontend.env,
        stdout=subprocess.PIPE,
        text=True,
    )
    wait_for((frontend.logdir / "cluster" / "run.json").exists)
    starting.send_signal(signal.SIGSTOP)  # otherwise it may be done before the stop begins
    assert frontend.run("stop").returncode == 0
    starting.send_signal(signal.SIGCONT)
    said, _ = starting.communicate(timeout=60)
    assert "The run was stopped while it was being started." in said and starting.returncode == 1
    assert frontend.processes() == []
    # Another start is another run.
    assert frontend.run("start").returncode == 0
    assert frontend.run("stop").returncode == 0


def make_spec(tmp_path: Path, *argv: str) -> list[str]:
    """The command of a keeper, whose spec is in that folder."""
    spec = {
        "argv": argv,
        "env": {},
        "folder": str(tmp_path),
        "grace_s": 1,
        "log": str(tmp_path / "actor-0.log"),
        "name": "actor-0",
        "restarts": 0,
        "run_id": "this",
        "state": str(tmp_path / "actor-0.json"),
        "under_mpirun": False,
    }
    (tmp_path / "actor-0.spec.json").write_text(json.dumps(spec))
    return [sys.executable, "-m", "cluster.on_host.keeper", str(tmp_path / "actor-0.spec.json")]


def test_a_keeper_starts_nothing_once_its_run_was_stopped(tmp_path: Path):
    command = make_spec(tmp_path, "touch", str(tmp_path / "started"))
    (tmp_path / "stopped").write_text("this")
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 0
    assert json.loads((tmp_path / "actor-0.json").read_text())["state"] == "stopped"
    assert not (tmp_path / "started").exists()
    (tmp_path / "stopped").write_text("the run before")
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 0
    assert json.loads((tmp_path / "actor-0.json").read_text())["state"] == "ended"
    assert (tmp_path / "started").exists()


def test_a_second_keeper_of_a_process_leaves_it_to_the_first(tmp_path: Path):
    # As when a request to start was sent again, because its reply was lost.
    command = make_spec(tmp_path, "sh", "-c", f"echo started >>{tmp_path}/starts; sleep 100")
    first = subprocess.Popen(command, cwd=ROOT)
    try:
        wait_for((tmp_path / "starts").exists)
        wait_for(lambda: "running" in (tmp_path / "actor-0.json").read_text())
        state = (tmp_path / "actor-0.json").read_text()
        assert subprocess.run(command, cwd=ROOT, timeout=20, check=False).returncode == 0
        assert (tmp_path / "starts").read_text() == "started\n"
        assert (tmp_path / "actor-0.json").read_text() == state
        # Another run's process of this name is not the same.
        spec = json.loads((tmp_path / "actor-0.spec.json").read_text())
        again = {**spec, "run_id": "that", "argv": ["touch", str(tmp_path / "other")]}
        (tmp_path / "actor-0.spec.json").write_text(json.dumps(again))
        assert subprocess.run(command, cwd=ROOT, timeout=20, check=False).returncode == 0
        assert (tmp_path / "other").exists()
    finally:
        first.terminate()
        first.wait()


class Passing(Hosts):
    """Hosts that do not answer a few times, then do."""

    def __init__(self, silent: int):
        self.silent = silent
        self.asked = 0

    def ask(self, place: Place, request: dict[str, Any]) -> dict[str, Any]:
        self.asked += 1
        if self.asked <= self.silent:
            raise HostFailed("did not answer within 30 s", passing=True)
        return {}


def test_a_request_to_start_is_sent_again_to_a_host_that_stalls(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(asking, "AGAIN_S", 0.01)
    host = Host("192.0.2.1", 22, "ann")
    process = Process("actor-0", "actor", Place(host, "impala", "python"), ("true",))
    plan = Plan((), (), (process,), Mpirun(), "logs/run")
    record = records.record_of(plan, "")
    for silent, problems in ((2, []), (10**6, [f"  {host}: did not answer within 30 s."])):
        hosts = Passing(silent)
        options = Options(patience_s=0.5)
        assert starting.start_processes(plan, options, record, hosts, ROOT) == problems
        assert hosts.asked > 2


def test_only_hosts_that_are_silent_for_long_take_a_start_down(monkeypatch: pytest.MonkeyPatch):
    now = [0.0]
    monkeypatch.setattr(looking, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    part = records.Part("actor-0", "actor", Place(Host("192.0.2.1", 22), "impala", "python"))
    silent = Seen([SeenPart(part, f"{UNSEEN}does not answer")], {}, {}, {})
    well = Seen([SeenPart(part, "running")], {}, {}, {})
    silence = looking.Silence(0.2)
    assert silence.passing(silent) == {"actor-0"}
    now[0] += 0.15
    assert silence.passing(silent) == {"actor-0"} and silence.passing(well) == set()
    now[0] += 0.15
    assert silence.passing(silent) == {"actor-0"}  # counted from its last answer
    now[0] += 0.25
    assert silence.passing(silent) == set()


def test_a_keeper_looks_through_all_processes_once_to_end_its_own(monkeypatch: pytest.MonkeyPatch):
    looked: list[int] = []

    def descendants(pid: int) -> set[int]:
        looked.append(pid)
        return set()

    monkeypatch.setattr(keeper, "marked", lambda run_id: [(pid, 1) for pid in range(2, 66)])
    monkeypatch.setattr(keeper, "descendants", descendants)
    child = subprocess.Popen(["sleep", "100"])
    for under_mpirun in (False, True):
        one = keeper.Keeper.__new__(keeper.Keeper)
        one._spec = {"run_id": "this", "under_mpirun": under_mpirun}
        one._terminate(child)
        assert len(looked) == int(under_mpirun)
    child.wait()


def test_a_keeper_starts_its_process_again_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(keeper, "write_whole", full)
    one = keeper.Keeper.__new__(keeper.Keeper)
    one._spec, one._state, one._state_path = {"run_id": "id"}, {}, tmp_path / "actor-0.json"
    one._begin, one._restarts = 0, 0
    with pytest.raises(OSError, match="No space left"):  # which ends the start
        one._write(state="starting")
    one._restarts = 1
    one._write(state="starting")
