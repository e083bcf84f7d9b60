"""Specs and labs for tests."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.trials.keeper import is_alive

PROJECT = Path(__file__).parents[2]
QUICK = Path(__file__).parent / "quick"
START = """
import sys
from pathlib import Path
from lab.trials import sessions
sessions.PROJECT = Path(sys.argv[1])
from lab.commands import main
sys.exit(main(sys.argv[2:]))
"""

SPEC: dict[str, Any] = {
    "level": "CartPole-v1",
    "settings": {"total_environment_frames": 1000},
    "meta": {"trials": 6, "search": "random", "resources": {"memory_gb": 0.1}},
    "search": {"settings": {"learning_rate__loguniform": [0.0001, 0.005]}},
}


def wait_for(condition: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Waits until there is something to find; sessions here are over within a second."""
    until = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < until, "never happened"
        time.sleep(0.02)
    return found


class Lab:
    """A lab in a folder of its own, whose sessions take a quarter of a second."""

    def __init__(self, folder: Path):
        self.folder, self.data = folder, folder / "data"
        self._started: list[subprocess.Popen[str]] = []

    def spec(self, **meta: Any) -> str:
        """Writes the spec, with changes of its meta; returns its file."""
        return self.write(SPEC | {"meta": SPEC["meta"] | meta})

    def write(self, content: dict[str, Any]) -> str:
        """Writes a spec named ``mine``; returns its file."""
        path = self.folder / "specs.json"
        path.write_text(json.dumps({"mine": content}))
        return str(path)

    def command(self, *arguments: str, real: bool = False) -> list[str]:
        """The words of a command."""
        return [sys.executable, "-c", START, str(PROJECT if real else QUICK), *arguments]

    def start(self, *arguments: str, real: bool = False, path: str = "") -> subprocess.Popen[str]:
        """Starts a command; programs may lie in a folder of their own."""
        process = subprocess.Popen(
            self.command(*arguments, real=real),
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": str(PROJECT), "PATH": f"{path}:{os.environ['PATH']}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._started.append(process)
        return process

    def end(self) -> None:
        """Kills what a failed test has left running."""
        for process in [one for one in self._started if one.poll() is None]:
            process.kill()
            process.communicate()
        for path in self.folder.glob("*/*/sessions/*/session.json"):
            state = json.loads(path.read_text())
            for which in ("keeper", "child"):
                if state["state"] == "running" and is_alive(state[which]):
                    os.kill(state[which]["pid"], signal.SIGKILL)

    def run(self, *arguments: str, code: int = 0, real: bool = False, typed: str = "") -> str:
        """Runs a command to its end, and types an answer; returns what it prints."""
        process = self.start(*arguments, real=real)
        said, _ = process.communicate(typed, timeout=250)
        assert process.returncode == code, said
        return said

    def wait(self, seconds: float = 150.0) -> None:
        """Waits until the experiment is finished."""
        until = time.monotonic() + seconds
        while not (self.only / "experiment_data.json").exists():
            assert time.monotonic() < until, (self.only / "lab.log").read_text()
            time.sleep(0.2)

    @property
    def only(self) -> Path:
        """The folder of the one experiment."""
        [folder] = [path.parent for path in self.data.glob("*/spec.json")]
        return folder

    def trials(self) -> list[dict[str, Any]]:
        """The records of all trials, by number."""
        found = [
            json.loads(path.read_text()) for path in self.only.glob("trials/*_trial_data.json")
        ]
        return sorted(found, key=lambda one: one["number"])

    def starts(self) -> dict[str, list[str]]:
        """The seeds with which each session was started, in order."""
        files = self.only.glob("sessions/*/starts.txt")
        return {path.parent.name: path.read_text().split() for path in files}


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A lab whose sessions are quick."""
    made = Lab(tmp_path)
    yield made
    made.end()
