"""How long a host may take for an answer: as long as what it is asked for takes."""

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from cluster.backends.ssh import fetching, hosts
from cluster.backends.ssh.hosts import Hosts
from cluster.model import Host, Place
from cluster.on_host import answers, checks
from cluster.on_host.answers import answer
from cluster.on_host.results import digest
from cluster.record import Listener, Record
from cluster.ssh.failures import HostFailed
from cluster.ssh.ssh import Connections

HOST = Host("192.0.2.1", 22, "ann")


class Punctual(Connections):
    """Hosts that are this machine, and are given up when their time is over."""

    def __init__(self) -> None:
        """Nobody is logged in."""

    def ask(
        self, host: Host, command: str, program: bytes, mark: str, line: str, seconds: float
    ) -> str:
        told: list[dict[str, Any]] = []
        thread = threading.Thread(target=lambda: told.append(answer(json.loads(line))), daemon=True)
        thread.start()
        thread.join(seconds)
        if not told:
            raise HostFailed(f"did not answer within {seconds:g} s", passing=True)
        return json.dumps(told[0])


def test_a_check_may_take_as_long_as_the_programs_that_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(hosts, "ANSWERS_WITHIN_S", 1.5)
    for name in ("python", "nvidia-smi"):
        monkeypatch.setitem(checks.WITHIN_S, name, 1.0)
        (tmp_path / name).write_text("#!/bin/sh\nexec sleep 60\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "experiment.py").touch()
    asked: dict[str, Any] = {
        "do": "check", "folder": str(tmp_path), "logdir": "logs/run", "project": "",
        "version": "", "code": [], "python": "./python", "packages": {}, "commands": [],
        "tmux": "", "replaced_run": "", "ports": [], "gpus": ["0"],
    }  # fmt: skip
    reply = Hosts(Punctual()).ask(Place(HOST, str(tmp_path), "./python"), asked)
    told = [problem for problem, _ in reply["problems"]]
    assert "./python cannot be run: TimeoutExpired" in told
    assert "GPU 0 is requested, but nvidia-smi lists 0" in told


def test_the_digest_of_a_large_file_may_take_longer_than_other_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def slow(request: dict[str, Any]) -> dict[str, Any]:
        time.sleep(2.0)
        return digest(request)

    monkeypatch.setitem(answers.ANSWERS, "digest", slow)
    monkeypatch.setattr(hosts, "ANSWERS_WITHIN_S", 1.5)
    monkeypatch.setattr(fetching, "READ_A_SECOND", 100.0)
    folder = tmp_path / "there" / "logs" / "run"
    folder.mkdir(parents=True)
    (folder / "best.npz").write_bytes(bytes(1000))
    learner = Listener("learner-0", Place(HOST, str(tmp_path / "there"), "python"), HOST.ip, 1)
    run = Record("id", "logs/run", "", (), (learner,))
    here = tmp_path / "here"
    assert fetching.fetch(run, Hosts(Punctual()), str(here), "all", 0.0) == 0
    assert (here / "best.npz").read_bytes() == bytes(1000)
