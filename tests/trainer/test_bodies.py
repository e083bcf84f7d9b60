"""One agent in several bodies of a game: what it learns from, its returns, games against others."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from algorithms.reinforce import Reinforce
from tests.environments.bodies.game import BODIES, LENGTH
from tests.pictures import frames
from tests.trainer.training import parts, small
from tests.trainer.untrained import make_run
from trainer.learning.whole_episodes import WholeEpisodes
from trainer.programs import local
from trainer.programs.local import train
from trainer.reporting.metrics import Meter, ended_episodes
from trainer.settings.config import Settings
from trainer.storage.records import read_metrics
from trainer.trained import video
from trainer.trained.dashboard import Dashboard
from trainer.trained.evaluation import evaluate
from trainer.trained.export import export
from user_error import UserError

SHIFT = "pettingzoo:tests.environments.bodies.game"
CANVAS = "pettingzoo:tests.environments.bodies.canvas"
AGENTS = {SHIFT: "", CANVAS: "SimpleConvNetAgent"}
VANISHING = "tests.environments.bodies.game:vanishing"
RETURNS = {"early": 3.0, "whole": 21.0, "late": 15.0}


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("bodies")
    make_run(folder, SHIFT)
    return folder


def report(folder: Path, **changes: Any) -> dict[str, Any]:
    evaluate(Settings(mode="test", logdir=str(folder), test_num_episodes=3, **changes))
    return json.loads((folder / "evaluation.json").read_text())["levels"][SHIFT]


def refused(folder: Path, **changes: Any) -> str:
    with pytest.raises(UserError) as caught:
        report(folder, **changes)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_actor_reports_the_returns_of_each_body():
    made = parts(small(SHIFT, envs_per_actor=5, unroll_length=4))
    actor = made.actor()
    meter = Meter([SHIFT], 1, {}, bodies=BODIES)
    blocks = [actor.unroll() for _ in range(7)]
    for block in blocks:
        meter.add_episodes(ended_episodes(block, len(BODIES)))
    figures = meter.report({})
    for body, raw_return in RETURNS.items():
        assert figures[f"mean_episode_return/{body}"] == raw_return
    assert figures["mean_episode_return/never"] is None
    assert meter.episodes == 2 * 4 * 3  # two games, four times, of three bodies
    # Nothing is learned from rows without a part: 2, 6, 3 and 0 actions of 7 rows a game.
    acted = sum((~block.environment.first[1:]).sum(0) for block in blocks)
    assert np.asarray(acted).tolist() == [8, 24, 12, 0] * 2


def test_returns_of_bodies_on_several_levels_have_names_of_their_own():
    meter = Meter(["A", "B"], 1, {}, bodies=["left", "right"])
    meter.add_episodes(np.array([[3, 5.0, 1], [0, 1.0, 1]]))
    figures = meter.report({})
    assert figures["mean_episode_return/B:right"] == 5.0
    assert figures["mean_episode_return/A:left"] == 1.0
    assert figures["mean_episode_return/A:right"] is None


def test_rows_without_a_part_are_no_whole_episodes():
    chosen: dict[str, Any] = {"algorithm": "reinforce", "envs_per_actor": 4}
    made = parts(small(SHIFT, unroll_length=2 * (LENGTH + 1), **chosen))
    block = made.actor().unroll()
    # In two games three bodies have an episode each; nobody waits for one of `never`.
    for size, full in ((6, True), (7, False)):
        collected = WholeEpisodes(size, Crew())
        collected.begin(0)
        collected._add(block._replace(weights_version=np.ones_like(block.weights_version)))
        assert collected._is_full() == full
    algorithm = made.learner.algorithm
    assert isinstance(algorithm, Reinforce)
    for quota in 1, 2:
        batch = WholeEpisodes(3 * quota, Crew())._batch([block])
        weights = np.sum(algorithm.weights(batch.unrolls), axis=0)
        assert weights.tolist() == [2 * quota, 6 * quota, 3 * quota, 0]


class Crew:
    """One actor."""

    def present(self) -> int:
        return 1

    def play_again(self, number: int) -> None:
        pass


# test_kinds.py trains bodies like these that differ, and test_agents.py two agents in them.
@pytest.mark.extras
def test_a_training_with_bodies_that_come_and_go_reports_each_of_them(tmp_path, monkeypatch):
    monkeypatch.setattr(local.cores, "divide", lambda **_: 1)
    train(
        Settings(
            level_name=SHIFT,
            logdir=str(tmp_path),
            total_environment_frames=400,
            envs_per_actor=4,
            batch_size=8,
            unroll_length=5,
            precision="float32",
        )
    )
    last = read_metrics(tmp_path)[-1]
    assert last["agent_steps"] >= 400 and np.isfinite(last["total_loss"])
    assert {body: last[f"mean_episode_return/{body}"] for body in RETURNS} == RETURNS


def test_all_bodies_play_whole_games(run):
    figures = report(run)
    assert {body: of["returns"] for body, of in figures["bodies"].items()} == {
        body: [raw_return] * 3 for body, raw_return in RETURNS.items()
    }
    assert figures["episodes"] == 9 and figures["mean"] == 13.0
    assert figures["interval_of_mean"] is None


def test_a_video_goes_on_until_the_last_body_has_left(run, tmp_path):
    path = tmp_path / "game.mp4"
    report(run, video=str(path))
    assert len(frames(path)) == LENGTH + 1


def test_against_an_opponent_the_agent_plays_one_body_of_each_game(run, tmp_path):
    # Three games: the first body of the first, and so on; the fourth body never plays.
    for opponent in ("random", str(run)):
        figures = report(run, opponent=opponent, env_kwargs="pay_actions=true")
        assert {body: of["episodes"] for body, of in figures["bodies"].items()} == {
            "early": 1, "whole": 1, "late": 1,
        }  # fmt: skip


@pytest.mark.parametrize(("opponent", "rows"), [("", [0, 1]), ("random", [0, 5])])
def test_videos_are_of_bodies_that_the_agent_plays(opponent, rows, run, monkeypatch):
    drawn: list[int] = []

    class Noted(Dashboard):
        def __init__(self, *given: Any):
            drawn.append(given[-1])
            super().__init__(*given)

    monkeypatch.setattr(video, "Dashboard", Noted)
    report(run, opponent=opponent, num_videos=2)
    assert drawn == rows  # of four bodies in a game
    assert len(list((run / "videos").glob("*_[12].mp4"))) == 2


def test_an_opponent_is_another_agent(run, tmp_path):
    make_run(tmp_path / "other", SHIFT, seed=5, tell_bodies="none")  # what auto means here
    greedy: dict[str, Any] = {"test_policy": "greedy", "env_kwargs": "pay_actions=true"}
    alone = report(run, **greedy)["bodies"]["early"]["returns"]
    against = report(run, opponent=str(tmp_path / "other"), **greedy)["bodies"]["early"]["returns"]
    assert against == alone[:1]


def test_an_opponent_is_a_file_that_names_no_code_but_that_of_the_games(run, tmp_path):
    def copied(name: str, level_name: str, **changes: Any) -> str:
        make_run(tmp_path / name, level_name, **changes)
        [original] = (tmp_path / name / "checkpoints").glob("*.npz")
        return str(shutil.copy(original, tmp_path / f"{name}.npz"))

    chosen: dict[str, Any] = {"test_policy": "greedy", "env_kwargs": "pay_actions=true"}
    copy = copied("other", SHIFT, seed=5)
    export(Settings(mode="export", logdir=str(tmp_path / "other"), export_format="bundle"))
    [bundle] = (tmp_path / "other" / "bundle").glob("*.npz")
    for file in (copy, str(bundle)):
        assert report(run, opponent=file, **chosen)["bodies"]["whole"]["episodes"] == 1
    other = copied("canvas", CANVAS, agent_name=AGENTS[CANVAS])
    message = refused(run, opponent=other)
    assert message.startswith(f"--opponent={other} asks for code by its name, which a file must")
    assert f"--level_name={CANVAS}. Give one of the same games, or, if you trust it" in message
    own = copied("own", SHIFT, seed=5, wrappers=VANISHING)
    assert f"--wrappers={VANISHING}. Give one" in refused(run, opponent=own)


def test_the_largest_seed_is_also_one_with_an_opponent(run):
    greatest = report(run, opponent=str(run), seed=2**31 - 1)
    assert greatest["bodies"]["whole"]["episodes"] == 1


def test_a_wrong_opponent_is_refused(run, tmp_path):
    assert "no such folder or file; expected random" in refused(run, opponent="rendom")
    assert "cannot be read (File name too long)" in refused(run, opponent="x" * 300)
    make_run(tmp_path / "pole", "CartPole-v1")
    assert "that of --opponent" in refused(run, opponent=str(tmp_path / "pole"))
    with pytest.raises(UserError, match="only one body plays CartPole-v1"):
        evaluate(Settings(mode="test", logdir=str(tmp_path / "pole"), opponent="random"))


@pytest.mark.parametrize(
    ("level_name", "changes", "told"),
    [
        (
            CANVAS,
            {"tell_bodies": "mirror"},
            "--tell_bodies=mirror, but these games have --tell_bod",
        ),
        (CANVAS, {"crop": "0,0,20,20"}, "--crop=0,0,20,20, but these games have --crop=;"),
        (SHIFT, {"wrappers": VANISHING}, f"--wrappers={VANISHING}, but these games have --wrap"),
    ],
)
def test_an_opponent_that_has_learned_to_see_otherwise_is_refused(
    level_name, changes, told, tmp_path
):
    make_run(tmp_path / "one", level_name, agent_name=AGENTS[level_name])
    make_run(tmp_path / "other", level_name, agent_name=AGENTS[level_name], **changes)
    assert told in refused(tmp_path / "one", opponent=str(tmp_path / "other"))
