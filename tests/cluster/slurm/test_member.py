"""A learner and its actors on nodes that nobody knows beforehand, without any Slurm."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.on_host import member
from tests.cluster.conftest import ROOT


def recorded(folder: Path, address: str, state: str) -> Path:
    """What a learner and its keeper have left."""
    if address:
        written = {"run_id": "run", "address": address}
        (folder / "learner-0.address").write_text(json.dumps(written))
    (folder / "learner-0.json").write_text(json.dumps({"run_id": "run", "state": state}))
    return folder


@pytest.mark.parametrize(
    ("address", "state", "gone"),
    [
        ("n1:8001", "running", False),
        ("n2:8001", "running", True),
        # Killed outright, it could not remove its address.
        ("n1:8001", "ended", True),
        ("", "ended", True),
        # It comes back: its keeper starts it again, or its job is in the queue.
        ("n1:8001", "pausing", False),
        ("", "pausing", False),
        ("n1:8001", "stopped", False),
        ("", "stopped", False),
    ],
)
def test_an_actor_leaves_a_learner_that_has_moved_or_will_not_come_back(
    tmp_path: Path, address: str, state: str, gone: bool
):
    records = recorded(tmp_path, address, state)
    found = member._is_gone(lambda: address, "n1:8001", records, "learner-0", "run")
    assert found == gone


def test_an_actor_does_not_begin_at_the_address_that_a_killed_learner_has_left(tmp_path: Path):
    records = recorded(tmp_path, "n1:8001", "ended")
    command = [sys.executable, "-m", "cluster.on_host.member", "actor", str(records), "run"]
    late = subprocess.run(
        [*command, "learner-0", "learner-0", "--", "sleep", "60"],
        cwd=ROOT, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert late.returncode == 0 and "the learners have ended" in late.stdout


@pytest.mark.parametrize(
    ("handed_out", "last"),
    [("20000 60999", 20_000), ("1024 65535", member.LAST), ("", member.LAST)],
)
def test_a_learners_port_is_none_that_the_system_gives_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, handed_out: str, last: int
):
    (tmp_path / "range").write_text(handed_out)
    monkeypatch.setattr(member, "EPHEMERAL", tmp_path / "range")
    assert all(member.FIRST <= member._free_port() < last for _ in range(20))
