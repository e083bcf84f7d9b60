"""A run that goes on says what no checkpoint has kept."""

from argparse import Namespace
from typing import Any

import pytest

from tests.trainer.levels import Steps, level
from tests.trainer.training import small
from trainer import build
from trainer.programs import learner_process

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
    settings = small(level(Steps), **changes)
    spec = build.level_spec(settings)
    settings = build.complete(settings, spec)
    said: list[str] = []
    run: Any = Namespace(
        reporter=Namespace(say=said.append), resumes=updates > 0, folder=tmp_path, saved_too=[]
    )
    learner: Any = Namespace(updates=updates)
    team: Any = Namespace(size=learners)
    nobody: Any = None  # what is made asks actors for nothing yet
    agent = build.acting_agent(settings, spec)
    make = learner_process._batches(settings, spec, agent, learner, team, run, lambda text: None)
    make(nobody)
    expected = expected if updates else []
    assert len(said) == len(expected) and all(map(str.startswith, said, expected))
