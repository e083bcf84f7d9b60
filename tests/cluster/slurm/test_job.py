"""What the keeper of a job does when the job's time limit is near, without any Slurm."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cluster.on_host import states
from tests.cluster.conftest import ROOT

# Slurm's warning, which the process itself sends here.
WARNS = ["/bin/sh", "-c", "kill -USR1 $PPID; exec /bin/sleep 60"]
KEEPS = """
import json, sys
from cluster.on_host import slurm_job
slurm_job.REQUEUED_WITHIN_S, slurm_job.AGAIN_S = 0.5, 0.1
sys.exit(slurm_job.JobKeeper(json.loads(sys.argv[1])).run() & 255)
"""
BUSY = "echo x >>asked; [ $(wc -l <asked) -gt 2 ] || { echo 'Socket timed out' >&2; exit 1; }"
REFUSES = "echo 'Requested operation is presently disabled' >&2; exit 1"


def kept(folder: Path, scontrol: str) -> tuple[dict[str, Any], str]:
    """The state and the log of a process whose job is to be put back by such a scontrol."""
    program, path = folder / "bin" / "scontrol", f"{folder}/bin"
    program.parent.mkdir()
    if scontrol:
        program.write_text(f"#!/bin/sh\ncd {folder}\n{scontrol}\n")
        program.chmod(0o755)
        path += f":{os.environ['PATH']}"
    spec = {
        "name": "learner-0",
        "argv": WARNS,
        "env": [],
        "under_mpirun": False,
        "restarts": 0,
        "grace_s": 15.0,
        "log_bytes": 0,
        "run_id": "run",
        "folder": str(folder),
        "state": str(folder / "learner-0.json"),
        "log": str(folder / "learner-0.log"),
    }
    subprocess.run(
        [sys.executable, "-c", KEEPS, json.dumps(spec)],
        cwd=ROOT, env={**os.environ, "PATH": path, "SLURM_JOB_ID": "7"}, timeout=30, check=False,
    )  # fmt: skip
    return states.read(folder, "learner-0", "run"), (folder / "learner-0.log").read_text()


@pytest.mark.parametrize("scontrol", ["exit 0", BUSY])
def test_a_job_goes_back_into_the_queue_also_when_slurm_is_busy(tmp_path: Path, scontrol: str):
    state, log = kept(tmp_path, scontrol)
    assert state["state"] == "stopped" and log.endswith("the time limit is near; requeued\n")


@pytest.mark.parametrize(
    ("scontrol", "why"),
    [(REFUSES, "Requested operation is presently disabled"), ("", "scontrol: No such file")],
)
def test_a_job_that_cannot_go_back_has_failed_and_says_why(tmp_path: Path, scontrol: str, why: str):
    state, log = kept(tmp_path, scontrol)
    assert states.judged(state, "") == "failed: 75"  # so that its actors end as well
    assert f"not requeued: {why}" in log
