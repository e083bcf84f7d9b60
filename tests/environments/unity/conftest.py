"""Builds of Unity that are programs of the tests."""

import sys
from pathlib import Path

import psutil
import pytest


@pytest.fixture
def build(tmp_path, monkeypatch):
    """Makes a level of a stand-in; no process may be left when the test has ended."""
    pids = tmp_path / "pids"
    monkeypatch.setenv("PID_FILE", str(pids))

    def made(name: str, fault: str = "") -> str:
        monkeypatch.setenv("BUILD", fault)
        path = tmp_path / f"{name}.x86_64"
        path.write_text(f"#!{sys.executable}\n{(Path(__file__).parent / f'{name}.py').read_text()}")
        path.chmod(0o755)
        return f"unity:{path}"

    yield made
    if pids.exists():
        for pid in map(int, pids.read_text().split()):
            assert not psutil.pid_exists(pid), "a build is left behind"
