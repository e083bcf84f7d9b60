"""The entropy's cost: where it goes over a run, in graphs that were traced before it moved."""

from typing import Any

import pytest

from algorithms.losses import Costs
from tests.trainer.levels import Steps, level
from tests.trainer.training import block, parts, small
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
        figures = dict(zip(learner.contribution.averaged, values.numpy(), strict=True))
        assert figures["entropy"] > 0.1
        assert figures["total_loss"] == pytest.approx(
            figures["policy_gradient_loss"]
            + 0.25 * figures["baseline_loss"]
            - cost * figures["entropy"],
            rel=1e-4,
        )


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
