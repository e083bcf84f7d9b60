"""Learning alone is what the algorithm makes of a batch."""

import pytest

from benchmarks.parts import part_calls
from tests.trainer.levels import Steps, level
from trainer.settings.config import Settings
from user_error import UserError


def learn_once(**changes) -> tuple[float, int]:
    """Agent steps of a call, and the updates that it makes."""
    made = []
    whole = part_calls.build.learner

    def learner(*given, **more):
        made.append(whole(*given, **more))
        return made[0]

    small = {"level_name": level(Steps), "envs_per_actor": 4, "batch_size": 4, "unroll_length": 8}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(part_calls.build, "learner", learner)
        settings = Settings(**small | changes)
        settings = part_calls.build.complete(settings, part_calls.build.level_spec(settings))
        [call] = part_calls.learning(settings, threads=2, callers=1)
    steps = call()
    return steps, made[0].updates


@pytest.mark.parametrize(
    ("changes", "updates"),
    [
        ({}, 1),
        ({"algorithm": "a2c"}, 1),
        ({"algorithm": "ppo"}, 10 * 16),
        ({"algorithm": "ppo", "epochs": 3, "minibatches": 2, "piece_length": 4}, 6),
    ],
)
def test_a_call_learns_from_a_batch_as_often_as_a_training(changes, updates):
    steps, made = learn_once(**changes)
    assert made == updates and 0 < steps <= 32


def test_steps_of_a_batch_that_replays_are_the_new_ones():
    steps, _ = learn_once(batch_size=4, replay_share=0.5)
    assert 0 < steps <= 16


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"algorithm": "dqn"}, "--algorithm=dqn does not learn from batches of unrolls"),
        ({"algorithm": "reinforce"}, "--algorithm=reinforce does not learn"),
        (
            {"algorithm": "ppo", "epochs": 1, "minibatches": 3, "piece_length": 8},
            "--minibatches=3 does not divide the 4 pieces",
        ),
    ],
)
def test_what_cannot_be_measured_alone_is_refused(changes, told):
    with pytest.raises(UserError, match=told):
        learn_once(**changes)
