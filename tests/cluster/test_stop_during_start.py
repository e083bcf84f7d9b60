"""A run that is stopped while it is being started, here, with real tmux and mpirun."""

import json
import subprocess
import sys
from pathlib import Path

from tests.cluster.conftest import ROOT, Frontend, wait_for
from tests.cluster.test_local_runs import EXAMPLE, pytestmark  # noqa: F401 (pytest looks for it)


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
    assert frontend.run("stop").returncode == 0
    said, _ = starting.communicate(timeout=60)
    assert "The run was stopped while it was being started." in said and starting.returncode == 1
    assert frontend.processes() == []
    # Another start is another run.
    assert frontend.run("start").returncode == 0
    assert frontend.run("stop").returncode == 0


def test_a_keeper_starts_nothing_once_its_run_was_stopped(tmp_path: Path):
    spec = {
        "argv": ["touch", str(tmp_path / "started")],
        "env": {},
        "folder": str(tmp_path),
        "grace_s": 1,
        "log": str(tmp_path / "actor-0.log"),
        "restarts": 0,
        "run_id": "this",
        "state": str(tmp_path / "actor-0.json"),
        "under_mpirun": False,
    }
    (tmp_path / "actor-0.spec.json").write_text(json.dumps(spec))
    command = [sys.executable, "-m", "cluster.on_host.keeper", str(tmp_path / "actor-0.spec.json")]
    (tmp_path / "stopped").write_text("this")
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 0
    assert json.loads((tmp_path / "actor-0.json").read_text())["state"] == "stopped"
    assert not (tmp_path / "started").exists()
    (tmp_path / "stopped").write_text("the run before")
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 0
    assert json.loads((tmp_path / "actor-0.json").read_text())["state"] == "ended"
    assert (tmp_path / "started").exists()
