"""Runs of experiment.py as processes, as users start them."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainer.storage.checkpoints import Checkpoint, Store

REPOSITORY = Path(__file__).parents[2]
DEADLINE_S = 100  # for a busy machine


def small(*flags: str, level: str = "CartPole-v1") -> list[str]:
    """The flags of a small training, and more."""
    usual = [f"--level_name={level}", "--report_every_s=0.5", "--env_threads=1"]
    return [*usual, "--envs_per_actor=4", "--batch_size=4", *flags]


def start(*flags: str, level: str = "CartPole-v1", **options: Any) -> subprocess.Popen[str]:
    """Starts a training in the background."""
    usual: dict[str, Any] = {
        "env": {**os.environ, "PYTHONUNBUFFERED": "1"},
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
    }
    return subprocess.Popen(
        [sys.executable, "experiment.py", *small(*flags, level=level)],
        cwd=REPOSITORY,
        text=True,
        **usual | options,
    )


def ended(process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
    """Waits for a training; returns its output and exit code."""
    try:
        stdout, stderr = process.communicate(timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError(f"still running: {process.communicate()}") from None
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def run(*flags: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs a training to its end."""
    return ended(start(*flags, **options))


def wait_for(happened: Callable[[], Any], process: subprocess.Popen[str]) -> None:
    """Waits until ``happened()`` is true; fails if the process ends or time runs out."""
    until = time.monotonic() + DEADLINE_S
    while not happened():
        assert process.poll() is None and time.monotonic() < until, process.communicate()
        time.sleep(0.02)


def store(folder: Path) -> Store:
    """The checkpoints in a run's folder."""
    return Store(folder / "checkpoints", 3)


def newest(folder: Path) -> Checkpoint:
    """The run's newest checkpoint; fails if it is damaged."""
    warnings: list[str] = []
    found = store(folder).newest(warnings.append)
    assert found and not warnings
    return found[1]


def contents(folder: Path) -> dict[str, bytes]:
    """The content of every file in a folder, by path."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
