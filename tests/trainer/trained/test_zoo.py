"""The trained agents that come with the project."""

from typing import Any

import pytest
import yaml

from trainer.settings.config import Settings
from trainer.storage import bundles, fetching
from trainer.storage.checkpoints import read
from trainer.trained.evaluation import evaluate

ENTRIES: dict[str, dict[str, Any]] = yaml.safe_load(fetching.OWN_REGISTRY.read_text())
# By greedy actions in 500 steps; random play of Pong is at about -5 by then.
REACHED = {"cartpole": 475.0, "catch": 0.9, "pong": 0.5}


@pytest.mark.parametrize("name", sorted(name for name in ENTRIES if not name.endswith("_model")))
def test_a_bundle_is_small_and_plays_as_well_as_its_description_says(name, tmp_path):
    path = fetching.located(fetching.NAMED + name, "--checkpoint")
    assert path is not None and path.stat().st_size < 2**20
    card = bundles.card(read(path))
    assert card is not None and card["evaluation"]
    report = evaluate(
        Settings(
            mode="test",
            checkpoint=fetching.NAMED + name,
            logdir=str(tmp_path),
            test_num_episodes=8,
            test_policy="greedy",
            step_limit=500,
        )
    )
    [figures] = report["levels"].values()
    assert figures["mean"] >= REACHED[name]
    assert [*report["levels"]] == card["levels"]
