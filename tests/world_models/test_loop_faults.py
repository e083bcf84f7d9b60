"""What a run survives: output that nobody reads, games that are away or do not run properly."""

import contextlib
import io
import os
import sys
from typing import Any, cast

import numpy as np
import pytest

import experiment
from tests.world_models.catch_model import flags, small, spec_of
from trainer.settings import sizes
from trainer.storage.played import read_all
from trainer.storage.records import read_metrics
from world_models.training import estimate, playing
from world_models.training.estimate import Amounts
from world_models.training.folders import Folders
from world_models.training.reports import Reports
from world_models.training.world_model import WorldModel


def a_full_disk() -> Any:
    return open("/dev/full", "w")


def a_reader_that_has_gone() -> Any:
    reading, writing = os.pipe()
    os.close(reading)
    return open(writing, "w")


def ascii_alone() -> Any:
    return io.TextIOWrapper(io.BytesIO(), "ascii")


@pytest.mark.parametrize("output", [a_full_disk, a_reader_that_has_gone, ascii_alone])
def test_what_a_run_says_is_in_its_log_whoever_reads_its_output(tmp_path, monkeypatch, output):
    stream = output()
    monkeypatch.setattr(sys, "stdout", stream)
    reports = Reports(Folders(tmp_path), 1)
    reports.say("collect 0 · model 4")
    reports.say("Done.")
    with contextlib.suppress(OSError):
        stream.close()
    first, second = (tmp_path / "train.log").read_text().splitlines()
    assert first.endswith("  collect 0 · model 4") and second.endswith("  Done.")


def test_a_collection_waits_for_games_that_are_away(tmp_path, monkeypatch):
    real_game = playing.real_game

    @contextlib.contextmanager
    def away_at_first(*given):
        with real_game(*given) as game:
            step, missing = game.step, [None] * 10

            def stepped(actions):
                if missing:
                    missing.pop()
                    return game.reset()  # no row has a game that is played
                return step(actions)

            game.step = stepped  # type: ignore[method-assign]
            yield game

    monkeypatch.setattr(playing, "LONGEST_PART", 3)
    monkeypatch.setattr(playing, "real_game", away_at_first)
    assert experiment.main(flags(tmp_path, phase="collect")) == 0
    parts = read_all(tmp_path / "play", "Catch-v0")
    assert sum(one.part.steps for one in parts) >= 120 and all(one.part.steps for one in parts)
    assert [row["real_steps"] for row in read_metrics(tmp_path)] == [120]


def test_play_that_did_not_run_properly_is_not_learned_from():
    spoilt = np.array([False, True, False, False])
    with playing.real_game(small(), 4, 0) as game:
        game.spoilt = lambda: spoilt  # type: ignore[method-assign]
        games, choose = playing.Games(game), playing.at_random(3, 1)
        part, _ = games.play(choose, 40)  # more than an episode of 9 steps
        assert part.first[0].all() and part.first[1:, 1].all()
        assert not part.terminated[:, 1].any() and not part.reward[:, 1].any()
        assert part.terminated[:, 0].any() and part.reward[:, 0].any()
        assert part.steps == 3 * 10  # of the others: an episode, a reset, and the next one
        spoilt = np.zeros(4, bool)
        part, _ = games.play(choose, 8)
        assert part.first[:, 1].tolist() == [True, False, False]
        assert [one.length for one in games.unfinished()] == [3, 2, 3, 3]


def test_what_a_policy_costs_is_measured_without_a_game(monkeypatch):
    monkeypatch.setattr(playing, "real_game", None)
    settings, model = small(), cast(Any, None)
    each = estimate.measured(settings, spec_of(settings), model, Amounts(0, 0, 0, 100))
    assert each.policy > 0 and not any(each[:3])


def test_unrolls_that_are_replayed_make_the_steps_of_a_policy_dearer(monkeypatch):
    monkeypatch.setattr(estimate, "_seconds", lambda call, times: 1.0)
    costs = []
    for share in (0.0, 0.75):
        settings = small(base_algorithm="impala", base_settings=f"replay_share={share}")
        costs.append(estimate._of_policy(settings, spec_of(settings)) - 1 / 4)  # without acting
    assert costs == pytest.approx([1 / (4 * 6), 1 / (1 * 6)])


@pytest.mark.parametrize("changes", [{}, {"publish_every_updates": 8}, {"envs_per_actor": 0}])
def test_what_a_policy_costs_is_that_of_its_settings(changes, monkeypatch):
    monkeypatch.setattr(estimate, "_seconds", lambda call, times: 1.0)
    base = {"base_algorithm": "dqn", "base_settings": "updates_per_step=0.5,replay_steps=1000"}
    settings = small(**base | changes)
    together, games = changes.get("publish_every_updates", 1), changes.get("envs_per_actor", 4)
    games = games or sizes.FEWEST_ENVS
    # Its updates may be made together; then these take their time only once.
    cost = estimate._of_policy(settings, spec_of(settings))
    assert cost == pytest.approx(0.5 / together + 1 / games)
    model = WorldModel(settings, spec_of(settings))
    assert estimate._of_dreams(settings, model) == pytest.approx(1 / games)
