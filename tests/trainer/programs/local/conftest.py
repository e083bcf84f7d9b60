"""Short trainings in this process, by their settings or by flags."""

import threading
from pathlib import Path
from typing import Any

import pytest

import experiment
from tests.trainer.levels import Steps, Tens, level
from trainer.programs import local
from trainer.settings.config import Settings

RETURNS = {level(Steps): 7, level(Tens): 30}


@pytest.fixture(autouse=True)
def threads(monkeypatch):
    """Asserts that no thread is left; keeps TensorFlow's threads, which cannot change now.

    Batches are not cut in two, which takes longer to trace.
    """
    monkeypatch.setattr(local.cores, "divide", lambda **_: 1)
    yield
    left = [thread.name for thread in threading.enumerate() if thread.name.startswith("actor")]
    assert left == []


def settings(folder: Path, **changes: Any) -> Settings:
    small: dict[str, Any] = {
        "level_name": level(Steps),
        "logdir": str(folder),
        "total_environment_frames": 400,
        "envs_per_actor": 2,
        "batch_size": 4,
        "unroll_length": 5,
        "replay_share": 0.0,
        "precision": "float32",
        "env_threads": 1,
    }
    if "algorithm" in changes:
        del small["replay_share"]  # which IMPALA alone has
    return Settings(**small | changes)


def flags(folder: Path, *more: str) -> list[str]:
    """The flags of a short training, and more."""
    return [
        f"--level_name={level(Steps)}",
        f"--logdir={folder}",
        "--total_environment_frames=400",
        "--batch_size=4",
        "--envs_per_actor=2",
        *more,
    ]


def refusal(capsys, *arguments: str) -> str:
    """The one line that reports a mistake."""
    capsys.readouterr()
    assert experiment.main(list(arguments)) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("experiment.py: ") and printed.err.count("\n") == 1
    return printed.err
