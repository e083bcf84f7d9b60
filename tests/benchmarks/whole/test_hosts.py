"""The benchmark of a frontend in front of many hosts: a small one, real, and its lines."""

import contextlib
import json
import socket
import subprocess
import sys
import tempfile
import types
from pathlib import Path
from typing import Any, cast

import pytest

from benchmarks.whole.hosts import __main__ as program
from benchmarks.whole.hosts import fleet, idle, report
from benchmarks.whole.hosts.frontend import Cost
from benchmarks.whole.hosts.report import Run
from tests.benchmarks.whole.stopping import killed, stopped_at
from tests.cluster.conftest import wait_for
from tests.pictures import coloured
from tests.trainer.disks import files_limited_to
from trainer.machine.launching import PROJECT
from user_error import UserError


def cost(hosts: int) -> Cost:
    return Cost(1.0 + hosts, 2.0, 10 + hosts, 3 + 2 * hosts, 0.5, 0.25 * hosts)


def run(hosts: int, cut_s: float = 0.0, real: int = 0) -> Run:
    costs = cost(hosts)._replace(seconds=1000.0) if cut_s else cost(hosts)
    return Run(hosts, real, cut_s, dict.fromkeys(report.ACTIONS, costs))


def test_a_line_goes_through_runs_that_are_alike_and_says_through_how_many(tmp_path: Path):
    runs = [run(8), run(8), run(16), run(32), run(32, cut_s=20.0), run(32, real=8)]
    found = report.line([one for one in runs if not one.real], "start", "seconds")
    assert found and found.points == 3 and found.at(256) == pytest.approx(257.0)
    assert report.line(runs[:2], "start", "seconds") is None
    table = report.table(runs).splitlines()
    assert "start, cut 20 s" in "".join(table)
    assert len(table) == 1 + 6 * 3 + 3 and table[-1].endswith("fitted to 3 numbers of hosts")
    assert table[-1].split()[:5] == ["256", "line", "stop", "257.0", "2.0"]
    report.write_json(tmp_path / "hosts.json", runs, {"what": "a test"})
    told = json.loads((tmp_path / "hosts.json").read_text())
    assert told["lines"]["stop"]["descriptors"]["each"] == pytest.approx(1.0)
    with files_limited_to(100), pytest.raises(UserError, match=r"hosts\.json cannot be written"):
        report.write_json(tmp_path / "hosts.json", runs[:1], {"what": "a test"})
    assert json.loads((tmp_path / "hosts.json").read_text()) == told
    report.draw(tmp_path / "hosts.png", runs, "a test")
    assert coloured(tmp_path / "hosts.png") > 0


def test_more_hosts_than_addresses_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(fleet, "missing", lambda: "")
    with pytest.raises(UserError, match="--hosts=8,300: at most 253"):
        program.measure(["--hosts=8,300", f"--results={tmp_path}"])
    monkeypatch.setattr(fleet, "missing", lambda: "needs root")
    with pytest.raises(UserError, match="no hosts can be made on this machine: needs root."):
        program.measure(["--hosts=8", f"--results={tmp_path}"])


def test_runs_that_have_ended_are_shown_when_it_is_stopped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    none = types.SimpleNamespace(grow=lambda count: None)
    monkeypatch.setattr(fleet, "missing", lambda: "")
    monkeypatch.setattr(program, "Fleet", lambda folder: contextlib.nullcontext(none))
    monkeypatch.setattr(program, "measured", stopped_at(2, run(8)))
    with pytest.raises(KeyboardInterrupt):
        program.measure(["--hosts=8,16", f"--results={tmp_path}"])
    assert len(json.loads((tmp_path / "hosts.json").read_text())["runs"]) == 1
    assert coloured(tmp_path / "hosts.png") > 0
    assert "hosts.json and hosts.png written" in capsys.readouterr().out


def test_the_seed_is_that_of_the_training(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    host = types.SimpleNamespace(plug=lambda: None)
    bridge = types.SimpleNamespace(hosts=[host])
    hosts = types.SimpleNamespace(bridge=bridge, folder=tmp_path, write_csv=lambda *_: None)
    given: list[tuple[str, ...]] = []
    said = ["", '{"processes": [{"state": "running"}, {"state": "running"}]}']
    said.append("Stopped 1 learner and 1 actor.\n")

    def run(fleet: Any, *flags: str, **_: Any) -> tuple[Cost, str]:
        given.append(flags)
        return cost(1), said[len(given) - 1]

    monkeypatch.setattr(program.frontend, "run", run)
    program.measured(cast(Any, hosts), 1, 0, 0.0, program.Options(seed=7))
    assert "--seed=7" in given[0]


def test_an_idle_learner_listens_and_ends_when_asked():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, idle.__file__, "--job_name=learner", f"--learner_host=h:{port}"]
    process = subprocess.Popen(command)
    try:
        wait_for(lambda: not socket.socket().connect_ex(("127.0.0.1", port)))
        process.terminate()
        assert process.wait(20) == 0
    finally:
        process.kill()


# A frontend that would go on for long; no host has a bridge.
FRONTEND = """
import os, pathlib, sys, time, types
from benchmarks.whole.hosts import frontend
folder = pathlib.Path(sys.argv[1])
(folder / "me").mkdir()
program = folder / "run_experiment_mm_raw.py"
program.write_text("import time; print(1, flush=True); time.sleep(600)")
frontend.PROJECT, frontend._moved = folder, lambda fleet: (0, 0)
fleet = types.SimpleNamespace(folder=folder)
def stopped(seconds):
    if (folder / "said").read_text():
        {then}
frontend.run(fleet, meanwhile=stopped)
"""


def test_a_frontend_ends_with_a_benchmark_that_is_stopped(tmp_path: Path):
    code = FRONTEND.format(then="sys.exit(143)")
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=PROJECT, check=False)
    assert done.returncode == 143 and not processes_in(tmp_path)


def test_a_frontend_ends_with_a_benchmark_that_is_killed(tmp_path: Path):
    with killed(FRONTEND.format(then="print('ready', flush=True)"), tmp_path) as said:
        assert said == "ready" and len(processes_in(tmp_path)) == 2
    wait_for(lambda: not processes_in(tmp_path))


def processes_in(folder: Path) -> list[str]:
    """Command lines that name the folder."""
    done = subprocess.run(["ps", "-wweo", "args="], capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if str(folder) in line]


@pytest.mark.skipif(bool(fleet.missing()), reason=fleet.missing())
@pytest.mark.xdist_group("network")
def test_two_hosts_are_measured_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    program.measure(["--hosts=1,2", "--real=0", f"--results={tmp_path}"])
    told = json.loads((tmp_path / "hosts.json").read_text())
    assert [one["hosts"] for one in told["runs"]] == [1, 2]
    for one in told["runs"]:
        for action in report.ACTIONS:
            found = one["costs"][action]
            assert found["seconds"] > 0 and found["cpu_seconds"] > 0
            assert found["descriptors"] >= 3 + one["hosts"] and found["threads"] > one["hosts"]
            # At least the program that answers there.
            assert found["megabytes_sent"] > 0.014 * one["hosts"]
    assert told["lines"]["start"]["descriptors"]["points"] == 2
    assert not processes_in(tmp_path)


@pytest.mark.skipif(bool(fleet.missing()), reason=fleet.missing())
@pytest.mark.xdist_group("network")
def test_hosts_of_a_benchmark_that_was_killed_end_with_it(tmp_path: Path):
    code = (
        "import pathlib, sys, time; from benchmarks.whole.hosts.fleet import Fleet;"
        "hosts = Fleet(pathlib.Path(sys.argv[1])); hosts.grow(1);"
        "print('ready', flush=True); time.sleep(600)"
    )
    with killed(code, tmp_path) as said:
        assert said == "ready" and processes_in(tmp_path)
    wait_for(lambda: not processes_in(tmp_path))
