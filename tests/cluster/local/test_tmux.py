"""Runs in tmux on this machine, beside what else is there, and without tmux."""

import dataclasses
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.on_host import windows
from tests.cluster.conftest import ROOT, Frontend, copy_project, wait_for
from tests.cluster.local.runs import EXAMPLE, ON_THIS_MACHINE, ONE_EACH, state

pytestmark = ON_THIS_MACHINE


def test_without_tmux_processes_run_detached(frontend: Frontend, tmp_path: Path):
    frontend.csv(*ONE_EACH)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "env").symlink_to(shutil.which("env") or "")
    bare = dataclasses.replace(frontend, env={**frontend.env, "PATH": str(tmp_path / "bin")})
    for one, flags in ((frontend, ["--tmux_sess="]), (bare, [])):
        started = one.run("start", *flags)
        assert started.returncode == 0 and "tmux attach" not in started.stdout
        assert frontend.tmux("list-sessions") == ""
        assert one.run("status").returncode == 0
        assert one.run("stop").returncode == 0 and frontend.processes() == []


def test_somebody_elses_tmux_session_is_left_alone(frontend: Frontend):
    frontend.csv(*ONE_EACH)
    frontend.tmux("new-session", "-d", "-s", "impala", "sleep 100")
    told = "there is a tmux session 'impala' already"
    for flags in ([], ["--allow_partial"]):
        done = frontend.run("start", *flags, "--stop_grace_s=1")
        assert done.returncode == 1 and told in done.stdout
    assert frontend.tmux("list-sessions", "-F", "#S") == "impala\n"


def test_a_window_of_ones_own_in_the_runs_session_stays(frontend: Frontend):
    frontend.csv(*ONE_EACH)

    def windows() -> list[str]:
        return sorted(frontend.tmux("list-windows", "-t", "impala", "-F", "#W").split())

    assert frontend.run("start").returncode == 0
    frontend.tmux("new-window", "-d", "-t", "impala:", "-n", "mine", "sleep 1000")
    for _ in range(2):
        assert frontend.run("stop").returncode == 0
        assert windows() == ["mine"]
        assert frontend.run("start").returncode == 0
        assert windows() == ["actor-0", "learner-0", "mine"]


def test_a_folders_name_is_no_command_of_tmux(frontend: Frontend, tmp_path: Path):
    folder = tmp_path / "a #(touch ran) b;"
    copy_project(folder)
    other = dataclasses.replace(frontend, folder=folder)
    other.csv(*ONE_EACH)
    try:
        started = other.run("start")
        assert started.returncode == 0, started.stdout
        assert other.tmux("display", "-p", "-t", "impala:", "#{pane_current_path}") == f"{folder}\n"
    finally:
        assert other.run("stop").returncode == 0


def test_processes_find_libraries_where_the_frontend_does(frontend: Frontend, tmp_path: Path):
    # A tmux server that was there before knows nothing of them.
    frontend.tmux("new-session", "-d", "-s", "other", "sleep 1000")
    frontend.env["LD_LIBRARY_PATH"] = str(tmp_path / "lib;")
    frontend.csv(*ONE_EACH)
    assert frontend.run("start").returncode == 0
    pid = state(frontend, "actor-0")["child"][0]
    environment = Path(f"/proc/{pid}/environ").read_text().split("\0")
    assert f"LD_LIBRARY_PATH={tmp_path}/lib;" in environment


def test_ctrl_s_in_a_window_does_not_halt_who_watches_over_its_process(frontend: Frontend):
    frontend.csv(*ONE_EACH)
    assert frontend.run("start").returncode == 0
    frontend.tmux("send-keys", "-t", "impala:actor-0", "C-s")
    wait_for(lambda: "reached localhost:18001 5 times" in frontend.run("logs").stdout)
    stopped = frontend.run("stop", "--stop_grace_s=30")
    assert stopped.stdout == "Stopped 1 learner and 1 actor.\n"


def test_a_closed_tmux_session_ends_its_processes(frontend: Frontend):
    frontend.csv(*EXAMPLE)
    assert frontend.run("start").returncode == 0
    frontend.tmux("kill-session", "-t", "impala")
    wait_for(lambda: not frontend.processes())


@pytest.mark.parametrize("names", [("a", "a.b", "a.1"), ("a.b", "a"), ("a.0", "a")])
def test_windows_of_agents_with_a_dot_in_their_name_are_told_apart(
    names: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TMUX_TMPDIR", str(tmp_path))
    monkeypatch.delenv("TMUX", raising=False)
    shown = "#{window_name} #{@impala_window} #{remain-on-exit}"
    try:
        for name in names:
            windows.open_window("agents", name, ["true"], str(tmp_path), "run")
        found = subprocess.check_output(["tmux", "list-windows", "-a", "-F", shown], text=True)
        assert found.splitlines() == [f"{name} run on" for name in names]
        windows.close("agents", "run", names[0])
        assert windows.owner("agents") == "run"
        windows.close("agents", "run")
        assert windows.owner("agents") is None
    finally:
        subprocess.run(["tmux", "kill-server"], capture_output=True, check=False)


@pytest.fixture
def own_tmux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home with a tmux server of its own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TMUX_TMPDIR", str(tmp_path))
    monkeypatch.delenv("TMUX", raising=False)
    yield tmp_path
    subprocess.run(["tmux", "kill-server"], capture_output=True, check=False)


@pytest.mark.parametrize("owner", ["another run", ""])
def test_a_session_that_somebody_else_makes_meanwhile_stays_theirs(owner: str, own_tmux: Path):
    if owner:
        windows.open_window("impala", "a", ["sleep", "1000"], str(own_tmux), owner)
    else:
        subprocess.run(["tmux", "new-session", "-d", "-s", "impala", "sleep 1000"], check=True)
    with pytest.raises(windows.TmuxRefused, match="there is a tmux session 'impala' already"):
        windows.open_window("impala", "b", ["sleep", "1000"], str(own_tmux), "run")
    assert windows.owner("impala") == owner


def test_a_session_stays_where_users_have_theirs_end_with_the_last_look(own_tmux: Path):
    (own_tmux / ".tmux.conf").write_text("set -g destroy-unattached on\n")
    for name in ("a", "b"):
        windows.open_window("impala", name, ["sleep", "1000"], str(own_tmux), "run")
    listed = ["tmux", "list-windows", "-t", "impala", "-F", "#W"]
    assert subprocess.check_output(listed, text=True).split() == ["a", "b"]
    assert windows.owner("impala") == "run"


def test_a_host_that_stalls_while_tmux_works_has_its_answer(tmp_path: Path):
    stalls = tmp_path / "tmux"
    stalls.write_text("#!/bin/sh\nkill -STOP $PPID; sleep 4; kill -CONT $PPID; echo run\n")
    stalls.chmod(0o755)
    asks = "windows.ANSWERS_WITHIN_S = 3; print(windows.owner('a'))"
    code = f"from cluster.on_host import windows; {asks}"
    path = f"{tmp_path}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    told = subprocess.run(
        [sys.executable, "-c", code], env=environment, text=True, capture_output=True, check=False
    )
    assert (told.stdout, told.stderr) == ("run\n", "")
