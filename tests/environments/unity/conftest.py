"""Builds of Unity that are programs of the tests."""

import time
from pathlib import Path

import psutil
import pytest

from tests.scripts import write_python

ENDS_WITHIN_S = 10  # where its end was not waited for


@pytest.fixture
def build(tmp_path, monkeypatch):
    """Makes a level of a stand-in; no process may be left when the test has ended."""
    pids = tmp_path / "pids"
    monkeypatch.setenv("PID_FILE", str(pids))

    def made(name: str, fault: str = "") -> str:
        monkeypatch.setenv("BUILD", fault)
        path = tmp_path / f"{name}.x86_64"
        write_python(path, (Path(__file__).parent / f"{name}.py").read_text())
        return f"unity:{path}"

    yield made
    until = time.monotonic() + ENDS_WITHIN_S
    for pid in map(int, pids.read_text().split()) if pids.exists() else ():
        while is_running(pid):
            assert time.monotonic() < until, "a build is left behind"
            time.sleep(0.05)


def is_running(pid: int) -> bool:
    """Whether the process is more than an entry that nobody has collected yet."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
