"""How a process was started, as the variables of whatever started it say."""

import os
import sys

import pytest

from trainer.machine import launching

MPIRUN = {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}
SRUN = {"PMIX_RANK": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "1"}


@pytest.fixture
def variables(monkeypatch):
    """Sets these, and no others that matter."""

    def make(**wanted: str) -> None:
        for name in (*launching.SIZES, *MPIRUN, *SRUN, "OMPI_MCA_btl"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(os, "environ", {**os.environ, **wanted})

    return make


@pytest.mark.parametrize(
    ("wanted", "together", "on_one_host"),
    [
        (MPIRUN, True, True),
        ({**MPIRUN, "OMPI_COMM_WORLD_LOCAL_SIZE": "1"}, True, False),
        (SRUN, True, True),
        ({**SRUN, "SLURM_STEP_NUM_NODES": "2"}, True, False),
        # Actors that one step of Slurm has started are no team.
        ({name: value for name, value in SRUN.items() if name != "PMIX_RANK"}, False, False),
        ({}, False, False),
    ],
)
def test_a_team_and_its_network(wanted, together, on_one_host, variables):
    variables(**wanted)
    assert launching.launched_together() == together
    launching.keep_to_this_host()
    assert ("OMPI_MCA_btl" in os.environ) == on_one_host


@pytest.mark.parametrize(
    ("program", "in_place", "lab", "training"),
    [
        ("lab/__main__.py", True, "bin/lab", "bin/train"),
        ("/there/bin/impala-lab", True, "impala-lab", "bin/train"),  # pip install --editable
        ("lab/__main__.py", False, "impala-lab", "impala-train"),  # in the background
    ],
)
def test_scripts_are_called_as_a_user_can_run_them(program, in_place, lab, training, monkeypatch):
    monkeypatch.setattr(sys, "argv", [program])
    monkeypatch.setattr(launching, "is_checkout", lambda: in_place)
    assert launching.script_name("bin/lab") == lab
    assert launching.script_name("bin/train") == training
