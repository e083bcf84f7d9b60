"""What tests of runs on this machine share: lists of hosts, and what a run has left."""

import json
import shutil

import pytest

from tests.cluster.conftest import Frontend

ON_THIS_MACHINE = [
    pytest.mark.skipif(
        not shutil.which("tmux") or not shutil.which("mpirun"), reason="needs tmux and mpirun"
    ),
    pytest.mark.xdist_group("local runs"),
]
HEADER = "job,ip,tf_port"
ONE_EACH = (HEADER, "learner,localhost,18001", "actor,localhost,19001")
EXAMPLE = (
    HEADER, "learner,localhost,18001", "learner,localhost,18002", "actor,localhost,19001",
    "actor,localhost,19002", "actor,localhost,19003",
)  # fmt: skip


def state(frontend: Frontend, name: str) -> dict:
    return json.loads((frontend.logdir / "cluster" / f"{name}.json").read_text())


def unhurried(frontend: Frontend) -> None:
    """Gives what fails at once the time to do so on a busy machine, before a start is complete."""
    path = frontend.folder / "cluster" / "backends" / "ssh" / "starting.py"
    text, constant = path.read_text(), "SETTLE_S = 2.0"
    assert constant in text
    path.write_text(text.replace(constant, "SETTLE_S = 8.0"))
