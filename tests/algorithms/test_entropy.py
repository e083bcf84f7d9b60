"""The entropy's cost: where it goes over a run, in graphs that were traced before it moved."""

from collections.abc import Mapping
from typing import Any

import pytest

from algorithms.losses import Costs
from tests.trainer.levels import Steps, level
from tests.trainer.training import block, parts, small
from trainer.learning.minibatches import Passes
from trainer.programs.local import train
from trainer.settings.config import Settings

WITH_END = {"entropy_cost": 0.5, "entropy_cost_end": 0.1, "baseline_cost": 0.25}


@pytest.mark.parametrize("algorithm", ["impala", "a2c", "ppo", "reinforce"])
def test_the_entropy_counts_less_towards_the_end(algorithm):
    settings = small(level(Steps), algorithm=algorithm, unroll_length=12, **WITH_END)
    learner, batch = parts(settings).learner, block(settings)
    for left, cost in ((1.2, 0.5), (1.0, 0.5), (0.5, 0.3), (0.0, 0.1), (-0.1, 0.1)):
        learner.algorithm.advance(left)
        pieces, prepared = learner.rollout(batch, 0)
        contribution, _ = learner.contribution(pieces, prepared)
        values = contribution.figures / contribution.count
        check(dict(zip(learner.contribution.averaged, values.numpy(), strict=True)), cost)


@pytest.mark.parametrize("xla", ["off", "on"])
def test_also_where_all_updates_of_a_batch_are_one_call(xla):
    changes: dict[str, Any] = {"unroll_length": 12, "epochs": 2, "minibatches": 1, "xla": xla}
    settings = small(level(Steps), algorithm="ppo", **changes | WITH_END)
    learner, batch = parts(settings).learner, block(settings)
    passes = Passes(2, 1, piece_length=12, pieces=batch.level.shape[0], seed=1)
    for left, cost in ((1.0, 0.5), (0.5, 0.3), (0.0, 0.1)):
        learner.algorithm.advance(left)
        for one in learner.learn_alone(batch, passes, left):
            check(one.figures, cost)


def check(figures: Mapping[str, float], cost: float) -> None:
    """That the total loss is the sum of its parts with this cost of the entropy."""
    assert figures["entropy"] > 0.1
    losses = figures["policy_gradient_loss"] + 0.25 * figures["baseline_loss"]
    total = losses - cost * figures["entropy"]
    assert figures["total_loss"] == pytest.approx(total, rel=1e-4)


def test_a_run_tells_its_losses_what_is_left_of_it(tmp_path, monkeypatch):
    told: list[float] = []
    monkeypatch.setattr(Costs, "advance", lambda self, left: told.append(left))
    chosen: dict[str, Any] = {"logdir": str(tmp_path), "total_environment_frames": 800}
    train(Settings(level_name=level(Steps), batch_size=4, env_threads=1, **chosen | WITH_END))
    assert told == sorted(told, reverse=True)
    assert told[0] == 1.0 and 0.0 < told[-1] < 0.3


def test_actors_that_compute_gradients_have_no_such_end():
    with pytest.raises(TypeError, match="entropy_cost_end is a setting of --algorithm=impala"):
        small(level(Steps), algorithm="a3c", **WITH_END)
