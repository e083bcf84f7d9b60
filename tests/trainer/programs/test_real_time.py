"""A whole training on worlds in real time, and what it reports of them."""

import json

import pytest

from tests.environments.realtime.remotes import REWARDING
from trainer import train
from trainer.settings.config import Settings
from trainer.storage.records import read_metrics

pytestmark = pytest.mark.xdist_group("remotes")


@pytest.mark.parametrize("algorithm", ["impala", "a3c"])
def test_a_training_reports_its_reaction_time(tmp_path, algorithm):
    settings = Settings(
        algorithm=algorithm,
        level_name=f"vnc:{REWARDING}",
        fps=30,
        width=40,
        height=40,
        num_actors=1,
        envs_per_actor=2,
        batch_size=2,
        total_environment_frames=120,
        report_every_s=0.5,
        logdir=tmp_path,
    )
    outcome = train(settings)
    assert outcome.figures["episodes"] > 0
    reports = [one for one in read_metrics(tmp_path) if one["reaction_time"] is not None]
    last = reports[-1]
    parts = [last[name] for name in ("thinking_time", "observation_lag", "action_lag")]
    assert all(part is not None for part in parts)
    assert last["rewards_per_second"] > 0 and last["updates_per_second"] > 0
    assert "reaction time (ms)" in (tmp_path / "train.log").read_text()
    json.dumps(last)
