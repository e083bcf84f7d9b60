"""A run that goes on says what no checkpoint has kept."""

import errno
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.trainer.levels import Steps, Tens, level
from tests.trainer.training import small
from trainer import build
from trainer.programs import learner_process
from trainer.storage import npz
from user_error import UserError

OF_A_REPLAY = ["The replay was not kept (--checkpoint_replay).", "60 agent steps are played before"]
RECENT = ["Recent unrolls are not kept in checkpoints"]
OPTIMIZERS = ["Optimizers of actors are not kept in checkpoints (--shared_optimizer=false)"]


@pytest.mark.parametrize("updates", [0, 7])
@pytest.mark.parametrize(
    ("learners", "expected", "changes"),
    [
        (1, OF_A_REPLAY, {"algorithm": "dqn", "replay_warm_up": 60}),
        (2, OF_A_REPLAY, {"algorithm": "dqn", "replay_warm_up": 60}),
        (2, RECENT, {"replay_share": 0.5}),
        (2, [], {"replay_share": 0.0}),
        (1, OPTIMIZERS, {"algorithm": "a3c", "shared_optimizer": False}),
        (1, [], {"algorithm": "a3c", "shared_optimizer": False, "optimizer": "sgd"}),
        (1, [], {"algorithm": "a3c"}),
    ],
)
def test_a_resume_says_what_is_lost_also_of_a_team(updates, learners, expected, changes, tmp_path):
    said: list[str] = []
    begin(tmp_path, updates, learners, said, **changes)
    expected = expected if updates else []
    assert len(said) == len(expected) and all(map(str.startswith, said, expected))


def begin(folder: Path, updates: int, learners: int, said: list[str], **changes: Any) -> Any:
    """Makes the batches of a run's first learner; returns the run."""
    settings = small(**{"level_name": level(Steps)} | changes)
    spec = build.level_spec(settings)
    settings = build.complete(settings, spec)
    run: Any = Namespace(
        reporter=Namespace(say=said.append),
        resumes=updates > 0,
        folder=folder,
        saved_too=[],
        has_changed_level=False,
    )
    learner: Any = Namespace(updates=updates)
    team: Any = Namespace(size=learners)
    nobody: Any = None  # what is made asks actors for nothing yet
    agent = build.acting_agent(settings, spec)
    make = learner_process._batches(settings, spec, agent, learner, team, run, lambda text: None)
    make(nobody)
    return run


@pytest.mark.parametrize("broken", [(npz.zipfile, "ZipFile"), (np, "load")])
@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), MemoryError()])
def test_a_kept_replay_that_cannot_be_read_now_is_not_overwritten(
    broken, error, tmp_path, monkeypatch
):
    def fails(*_: Any, **__: Any) -> Any:
        raise error

    sizes = {"replay_steps": 1000, "replay_warm_up": 60}
    of_dqn = {"algorithm": "dqn", "checkpoint_replay": True, **sizes}
    said: list[str] = []
    run = begin(tmp_path, 0, 1, said, **of_dqn)
    for save in run.saved_too:
        save()
    files = {path: path.read_bytes() for path in (tmp_path / "replay").iterdir()}
    assert len(files) > 3
    with monkeypatch.context() as patched:
        patched.setattr(*broken, fails)
        with pytest.raises(UserError, match=r"cannot be read: .* run the same command again"):
            begin(tmp_path, 7, 1, said, **of_dqn)
    assert files == {path: path.read_bytes() for path in (tmp_path / "replay").iterdir()}
    [index] = [path for path in files if path.suffix == ".npz"]
    index.write_bytes(b"damaged")
    begin(tmp_path, 7, 1, said, **of_dqn)
    assert said[0].startswith(f"warning: {index} is damaged")


def test_a_kept_replay_of_another_level_is_not_taken_for_this_one(tmp_path):
    sizes = {"replay_steps": 1000, "replay_warm_up": 60}
    of_dqn = {"algorithm": "dqn", "checkpoint_replay": True, **sizes}
    said: list[str] = []
    for save in begin(tmp_path, 0, 1, said, **of_dqn).saved_too:
        save()
    begin(tmp_path, 7, 1, said, **of_dqn)
    begin(tmp_path, 7, 1, said, level_name=level(Tens), **of_dqn)
    left = "60 agent steps are played before the next update."
    of_another = f"{tmp_path}/replay is the copy of a replay of another level, {level(Steps)}."
    assert said == [left, f"warning: {of_another}", left]
