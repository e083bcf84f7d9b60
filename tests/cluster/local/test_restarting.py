"""Runs on this machine, and actors of them, that are started again."""

import signal
from pathlib import Path

import pytest

from cluster.on_host import keeper
from cluster.on_host.keeper import Keeper
from cluster.on_host.processes import is_alive, send
from tests.cluster.conftest import Frontend, wait_for
from tests.cluster.local.runs import HEADER, ON_THIS_MACHINE, ONE_EACH, state

pytestmark = ON_THIS_MACHINE


def test_a_restart_ends_the_run_before_and_starts_it_again(frontend: Frontend):
    frontend.csv(*ONE_EACH)
    assert frontend.run("restart").returncode == 2
    assert frontend.run("start").returncode == 0
    before = state(frontend, "learner-0")["keeper"]
    assert frontend.run("restart").returncode == 0
    assert not is_alive(*before)
    assert frontend.run("status").returncode == 0


def test_a_restart_that_cannot_succeed_leaves_the_run_alone(frontend: Frontend):
    frontend.csv(*ONE_EACH)
    assert frontend.run("start").returncode == 0
    before = frontend.processes()
    frontend.csv(f"{HEADER},python", f"{ONE_EACH[1]},", f"{ONE_EACH[2]},nowhere/python")
    refused = frontend.run("restart")
    assert refused.returncode == 1
    assert "Nothing was stopped or started. Fix this" in refused.stdout
    assert frontend.processes() == before
    # Its own ports and windows are in nobody's way.
    frontend.csv(*ONE_EACH)
    again = frontend.run("restart")
    assert again.returncode == 0, again.stdout
    assert again.stdout.startswith("Stopped 1 learner and 1 actor.\n")


def test_an_actor_that_fails_is_started_again_and_what_its_keeper_left_is_stopped(
    frontend: Frontend,
):
    frontend.csv(*ONE_EACH)
    assert frontend.run("start", "--restart_actors=2").returncode == 0
    first = wait_for(lambda: state(frontend, "actor-0")["child"])
    assert send(first[0], first[1], signal.SIGKILL)
    second = wait_for(lambda: (s := state(frontend, "actor-0"))["restarts"] == 1 and s["child"])
    assert second != first and is_alive(*second)
    assert "failed with -9; restarting in 1 s" in frontend.run("logs").stdout

    keeper = state(frontend, "actor-0")["keeper"]
    assert send(keeper[0], keeper[1], signal.SIGKILL)
    assert "running, unsupervised" in frontend.run("status").stdout
    assert frontend.run("stop").returncode == 0
    assert not is_alive(*second) and frontend.processes() == []


def test_who_fails_for_days_is_started_again_as_often_as_was_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    class Clock:
        now = 0.0

        def monotonic(self) -> float:
            return self.now

        time = monotonic

        def sleep(self, seconds: float) -> None:
            self.now += seconds

    clock, runs = Clock(), []

    def fails(_: Keeper) -> int:
        runs.append(1)
        return 1

    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(keeper, "time", clock)
    monkeypatch.setattr(keeper, "write_whole", lambda *_: None)
    monkeypatch.setattr(Keeper, "_run_once", fails)
    spec = {"state": str(tmp_path / "a.json"), "log": str(tmp_path / "a.log"), "grace_s": 0}
    watched = Keeper({**spec, "run_id": "r", "folder": str(tmp_path), "restarts": 1100})
    assert watched.run() == 1 and len(runs) == 1101
    pauses = [line.split()[-2] for line in (tmp_path / "a.log").read_text().splitlines()]
    assert pauses[:8] == ["1", "2", "4", "8", "16", "32", "60", "60"] and set(pauses[6:]) == {"60"}
