"""Bounds in front of many hosts: threads, open files, looks through processes, attempts."""

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cluster.backends.ssh import checking
from cluster.backends.ssh.hosts import AT_ONCE, Hosts, at_once
from cluster.inventory.hosts_csv import Row
from cluster.model import Host, Mpirun, Place
from cluster.on_host import ending, processes
from cluster.options import Options
from cluster.ssh import logins
from cluster.ssh.alarms import Alarms
from cluster.ssh.passwords import Passwords
from tests.cluster.conftest import ROOT, wait_for
from tests.cluster.plan.plans import plan, row


class Reaching(Hosts):
    """Hosts of which some cannot reach a learner; keeps how many are asked at once."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.most, self._now, self._lock = 0, 0, threading.Lock()
        self.listening: list[int] = []

    def ask(self, place: Place, request: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
            self.asked.append((place.host.ip, request["do"]))
        time.sleep(0.01)
        with self._lock:
            self._now -= 1
        if request["do"] == "listen":
            self.listening.append(sum(times for _, times in request["expected"]))
            return {}
        if request["do"] == "check":
            return {"problems": [], "now": time.time()}
        away = place.host.ip == "10.0.1.77"
        return {"unreached": request["addresses"] if away else []}


@pytest.mark.parametrize("listening", [False, True])
def test_256_hosts_call_their_learner_in_turns_and_each_is_expected(listening: bool):
    rows: list[Row] = [row("learner", "10.0.0.1", 8001, ssh_port=22)]
    rows += [row("actor", f"10.0.1.{n}", 9000 + n, ssh_port=22) for n in range(250)]
    made = plan(rows)
    hosts = Reaching()
    answering = {one.place for one in (*made.learners, *made.actors)}
    wrong = checking._unreached(made, hosts, answering, 0.0, listening)
    assert [(host, what) for host, what, _ in wrong] == [
        ("me@10.0.1.77", "cannot reach the learner's 10.0.0.1:8001")
    ]
    calls = [ip for ip, do in hosts.asked if do == "reach"]
    assert len(calls) == len(set(calls)) == 250 and hosts.most <= AT_ONCE + 1
    assert hosts.listening == ([] if listening else [64, 64, 64, 58])


def test_256_rows_on_four_hosts_are_one_request_to_each():
    rows: list[Row] = [row("learner", "10.0.0.1", 8001, ssh_port=22)]
    rows += [row("actor", f"10.0.0.{1 + n % 4}", 9000 + n, ssh_port=22) for n in range(256)]
    hosts = Reaching()
    wrong, _ = checking.check(plan(rows), hosts, ROOT, "")
    asked = Counter(do for _, do in hosts.asked)
    # The actors on the learner's own host need not be checked for reaching it.
    assert wrong == [] and asked == {"check": 4, "listen": 1, "reach": 3}
    assert hosts.listening == [3]


@pytest.mark.parametrize("lasting", [False, True])
def test_after_ctrl_c_a_frozen_host_is_waited_for_only_where_something_lasts(lasting: bool):
    begun, freed, ended = threading.Event(), threading.Event(), []

    def work(key: str) -> dict[str, Any]:
        if key == "interrupted":
            begun.wait(20)
            raise KeyboardInterrupt
        begun.set()
        freed.wait(20)
        ended.append(key)
        return {}

    if lasting:
        threading.Timer(0.2, freed.set).start()
    with pytest.raises(KeyboardInterrupt):
        at_once(work, ["interrupted", "frozen"], lasting=lasting)
    assert ended == (["frozen"] if lasting else [])
    freed.set()


def test_256_hosts_that_are_slow_take_one_thread_to_watch_the_time():
    before, alarms = threading.active_count(), Alarms()
    rung: list[int] = []
    waits = [alarms.within(60, lambda: rung.append(-1)) for _ in range(256)]
    for one in waits:
        one.__enter__()
    assert threading.active_count() == before + 1
    with alarms.within(0.05, lambda: rung.append(1)) as late:
        assert late.wait(20)
    with alarms.within(2, lambda: rung.append(2)):
        pass
    for one in waits:
        one.__exit__(None, None, None)
    time.sleep(2.2)
    assert rung == [1]


def limited(soft: int, hard: int, hosts: int) -> subprocess.CompletedProcess[str]:
    """What becomes of a limit of open files."""
    code = (
        "import resource as r, cluster.ssh.descriptors as d, user_error as u\n"
        f"r.setrlimit(r.RLIMIT_NOFILE, ({soft}, {hard}))\n"
        f"try: d.make_room({hosts}); print(r.getrlimit(r.RLIMIT_NOFILE))\n"
        "except u.UserError as e: print(e)"
    )
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )


def test_the_limit_of_open_files_is_raised_or_named():
    assert limited(512, 4096, 8).stdout == "(512, 4096)\n"
    assert limited(512, 4096, 256).stdout == "(868, 4096)\n"
    assert limited(256, 512, 256).stdout == (
        "256 hosts take up to 868 open files, and this machine allows a process 512 (ulimit -Hn). "
        "Raise that limit, or use fewer hosts.\n"
    )


def test_processes_are_looked_through_as_often_for_many_names_as_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    looks: list[str] = []
    iterdir = Path.iterdir

    def counted(path: Path) -> Any:
        looks.extend([str(path)] if str(path) == "/proc" else [])
        return iterdir(path)

    monkeypatch.setattr(processes.Path, "iterdir", counted)
    monkeypatch.setenv("HOME", str(tmp_path))

    def looked(count: int) -> int:
        looks.clear()
        names = [f"actor-{number}" for number in range(count)]
        asked = {"run_id": "none", "logdir": "logs/run", "records": tmp_path, "names": names}
        told = ending.end({**asked, "grace_s": 0, "tmux": ""})
        assert told == {"killed": 0, "left": []}
        return len(looks)

    assert looked(200) == looked(1) > 0


def test_only_processes_of_these_names_are_found():
    environment = {**os.environ, processes.MARK: "r", processes.NAME: "actor-1"}
    child = subprocess.Popen(["sleep", "60"], env=environment)
    try:
        found = [(child.pid, processes.start_time(child.pid))]
        wait_for(lambda: processes.marked("r"))  # a moment after its start, it shows no environment
        assert processes.marked("r") == found == processes.marked("r", ["actor-0", "actor-1"])
        assert processes.marked("r", ["actor-2"]) == [] == processes.marked("q", ["actor-1"])
    finally:
        child.kill()
        child.wait()


SSH = """#!/bin/sh
echo tried >>"$0.tries"
case $(wc -l <"$0.tries") in 1|2) echo "ssh: $1 WHY" >&2; exit 255;; esac
"""


@pytest.mark.parametrize(
    ("why", "patience_s", "tries", "problems"),
    [
        ("No route to host", 30, 3, 0),
        ("No route to host", 0, 1, 1),
        ("Permission denied", 30, 1, 1),
    ],
)
def test_a_login_for_mpirun_is_tried_again_unless_it_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    why: str,
    patience_s: float,
    tries: int,
    problems: int,
):
    ssh = tmp_path / "ssh"
    ssh.write_text(SSH.replace("WHY", why))
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(logins, "AGAIN_S", 0.01)
    host = Host("192.0.2.1", 22, "ann")
    spread = Mpirun((("hosts", ""), ("config", "")), (), (("name", host),))
    told = logins.open_all(spread, "r", Passwords({host: "x"}, Options()),
                           Options(patience_s=patience_s))  # fmt: skip
    assert (tmp_path / "ssh.tries").read_text().count("tried") == tries
    assert len(told) == problems and all(why in one for one in told)
