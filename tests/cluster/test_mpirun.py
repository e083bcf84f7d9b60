"""Starts of mpirun on this machine: beside programs on ports of X displays, and ones that hang."""

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.whole.scaleup.processes import Processes
from cluster.mpi_environment import ENVIRONMENT
from tests.cluster import displays
from tests.cluster.conftest import ROOT, Frontend, wait_for
from tests.cluster.local.runs import EXAMPLE, ON_THIS_MACHINE
from tests.cluster.test_watching import kill_a_learner, rows_of

pytestmark = ON_THIS_MACHINE


def told_twice(frontend: Frontend) -> bool:
    """Whether both learners have been started two times."""
    logs = frontend.run("logs", "--name=learners").stdout
    return logs.count("is rank 0 of 2") == logs.count("is rank 1 of 2") == 2


def test_learners_are_restarted_beside_the_tensorboard_of_their_run(frontend: Frontend):
    frontend.csv(*EXAMPLE)
    started = frontend.run("start", "--tensorboard", "--restart_learners=1")
    assert started.returncode == 0, started.stdout
    wait_for(lambda: "at http://" in frontend.run("logs", "--name=tensorboard").stdout)
    kill_a_learner(frontend)
    wait_for(lambda: told_twice(frontend))


def test_learners_are_restarted_beside_a_program_that_never_answers(frontend: Frontend):
    frontend.csv(*EXAMPLE)
    assert frontend.run("start", "--restart_learners=1").returncode == 0
    with displays.occupied():
        kill_a_learner(frontend)
        wait_for(lambda: told_twice(frontend))


def test_mpirun_by_hand_starts_beside_a_program_that_never_answers():
    bare = {name: value for name, value in os.environ.items() if name not in ENVIRONMENT}
    with displays.occupied():
        done = subprocess.run(
            [ROOT / "bin" / "mpirun", "-np", "1", "pwd"],
            cwd="/usr", env=bare, capture_output=True, text=True, check=False, timeout=100,
        )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "/usr\n"), done.stderr


def test_benchmarks_start_beside_a_program_that_never_answers(tmp_path: Path):
    with displays.occupied(), Processes(tmp_path) as processes:
        processes.start("learners", ["mpirun", "-np", "1", "echo", "started"])
        wait_for(lambda: "started" in (tmp_path / "learners.log").read_text())


def test_containers_of_learners_have_what_mpirun_needs():
    text = (ROOT / "docker" / "DockerfileLearner").read_text().replace("\\\n", " ")
    instructions = [shlex.split(line)[1:] for line in re.findall(r"^ENV .*", text, re.MULTILINE)]
    assert {f"{name}={value}" for name, value in ENVIRONMENT.items()} <= set(sum(instructions, []))


# Hangs as long as a file is there, then becomes the real one.
HANGING = """#!/bin/sh
while [ -e {file} ]; do sleep 0.2; done
exec {mpirun} "$@"
"""


@pytest.fixture
def hanging(frontend: Frontend, tmp_path: Path) -> Iterator[Path]:
    """The file that makes mpirun hang, which is reported after a second."""
    file = tmp_path / "hangs"
    mpirun = tmp_path / "bin" / "mpirun"
    mpirun.parent.mkdir()
    mpirun.write_text(HANGING.format(file=file, mpirun=shutil.which("mpirun")))
    mpirun.chmod(0o755)
    frontend.env["PATH"] = f"{mpirun.parent}:{frontend.env['PATH']}"
    keeper = frontend.folder / "cluster" / "on_host" / "keeper.py"
    text, constant = keeper.read_text(), "SILENT_START_S = 60.0"
    assert constant in text
    keeper.write_text(text.replace(constant, "SILENT_START_S = 1.0"))
    yield file
    file.unlink(missing_ok=True)


def test_learners_whose_mpirun_hangs_when_it_is_restarted_are_not_called_running(
    frontend: Frontend, hanging: Path
):
    frontend.csv(*EXAMPLE)
    assert frontend.run("start", "--restart_learners=1").returncode == 0
    wait_for(lambda: "sign of life" not in frontend.run("status").stdout)
    hanging.touch()
    kill_a_learner(frontend)
    told = wait_for(lambda: (s := frontend.run("status")).returncode == 1 and s)
    rows = rows_of(told.stdout)
    for name in ("learner-0", "learner-1"):
        assert rows[name][1] == "running, no sign of life"
        assert rows[name][5].startswith("keeper: no learner has written anything")
    assert rows["actor-0"][1] == "running"
    for what in ("logs/run/cluster/learners.log", "tmux session impala", "orted", "6006"):
        assert what in told.stdout
    assert "no learner has written anything" in frontend.run("logs", "--name=learners").stdout

    hanging.unlink()
    wait_for(lambda: frontend.run("status").returncode == 0)
    rows = rows_of(frontend.run("status").stdout)
    assert rows["learner-0"][1] == rows["learner-1"][1] == "running"
    wait_for(lambda: told_twice(frontend))


def test_a_start_whose_mpirun_hangs_says_what_to_look_at(frontend: Frontend, hanging: Path):
    frontend.csv(*EXAMPLE)
    # The log of an earlier run in the same folder is no sign of life.
    assert frontend.run("start").returncode == frontend.run("stop").returncode == 0
    hanging.touch()
    done = frontend.run("start", "--start_timeout_s=10", "--stop_grace_s=0")
    assert done.returncode == 1
    assert "has not opened port 18001" in done.stdout
    assert done.stdout.count("logs/run/cluster/learners.log") == 1 and "orted" in done.stdout
    assert json.loads((frontend.logdir / "cluster" / "learners.json").read_text())
    assert frontend.processes() == []
