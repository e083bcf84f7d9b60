"""Evaluations of several settings at once."""

import contextlib
import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from gymnasium.spaces import Box, Discrete
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import environments
from algorithms.impala import Impala
from algorithms.own_settings.impala import ImpalaSettings
from environments import EnvironmentSpec, EnvironmentStep, Episode, VectorEnvironment
from environments.levels import environment_seeds
from tests.environments.bodies.game import LENGTH, Shift
from tests.environments.realtime.remotes import REFLEX
from tests.trainer.disks import files_limited_to
from tests.trainer.untrained import Uneven, make_run
from trainer import build
from trainer.acting.playing import Choice, Game, Player, play, play_shared
from trainer.settings import checks, grid
from trainer.settings.config import Settings
from trainer.trained import grid_report, trained_agent
from trainer.trained.evaluation import evaluate, interval_of_mean
from user_error import UserError

HERE = "tests.trainer.trained.test_grid"
UNEVEN = "tests.trainer.untrained:Uneven"
DRAWN = "tests.trainer.untrained:Continuous"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", [""]),
        ("episodes=3", ["episodes=3"]),
        (
            "temperature=0,0.5; noops=0,8;",
            [
                "temperature=0.0 noops=0",
                "temperature=0.0 noops=8",
                "temperature=0.5 noops=0",
                "temperature=0.5 noops=8",
            ],
        ),
        ("test_num_episodes=2", ["episodes=2"]),
    ],
)
def test_a_grid_is_every_combination(text, names):
    assert [cell.name for cell in grid.cells(text)] == names


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("temperature", "expected NAME=VALUE"),
        ("temperature=", "expected NAME=VALUE"),
        ("temprature=1", "Did you mean temperature?"),
        ("temperature=hot", "temperature=hot: expected a number"),
        ("temperature=-1", "must be 0 or more"),
        ("temperature=1;temperature=2", "given twice"),
        ("noops=8,8", "noops has a value twice"),
        ("test_policy=best", "expected sampled or greedy"),
        ("episodes=0", "must be 1 or more"),
        ("agent_name=ResNetAgent", "there is no agent_name"),
    ],
)
def test_what_is_wrong_with_a_grid_is_said_before_anything_starts(text, expected):
    with pytest.raises(UserError) as caught:
        checks.check(Settings(level_name="CartPole-v1", mode="test", grid=text))
    assert expected in str(caught.value) and "\n" not in str(caught.value)


def test_a_grid_is_for_evaluations_and_has_videos_of_its_own():
    for changes in ({"mode": "train"}, {"mode": "test", "video": "one.mp4"}):
        with pytest.raises(UserError, match="--grid"):
            checks.check(Settings(level_name="CartPole-v1", grid="noops=0", **changes))


def played(step_limit: int) -> tuple[list[Game], list[int]]:
    """Games of `Uneven`, and how long they would be."""
    environment = environments.make(UNEVEN, 4, seed=3)
    agent = build.acting_agent(Settings(), environment.spec)
    player = Player(agent, Impala(ImpalaSettings(), levels=1), greedy=False)
    games = play(environment, player, 12, seed=1, step_limit=step_limit)
    lengths = []
    for seed in environment_seeds(3, 4):
        env = Uneven()
        env.reset(seed=int(seed))
        lengths += [env.left, env.draw(), env.draw()]
    return games, lengths


@pytest.mark.parametrize("limit", [0, 1, 17, 40, 41])
def test_a_game_that_reaches_the_limit_counts_as_it_is_then(limit):
    games, lengths = played(limit)
    most = limit or 100
    assert [game.length for game in games] == [min(length, most) for length in lengths]
    assert [game.raw_return for game in games] == [min(length, most) for length in lengths]
    # One that ends with its last step is not cut off.
    assert [game.finished for game in games] == [length <= most for length in lengths]
    assert {1, 40} == set(lengths)


class Endless(Uneven):
    """Episodes without an end."""

    def draw(self) -> int:
        return -1


class Flowing(Endless):
    """The same, in a thread of its own."""

    goes_on_by_itself = True


@pytest.mark.parametrize(
    ("level_name", "env_processes"),
    [(f"{HERE}:Endless", 0), (f"{HERE}:Endless", 2), (f"{HERE}:Flowing", 0), ("pong", 0)],
)
def test_the_next_game_begins_where_one_is_cut_off(level_name, env_processes):
    environment = environments.make(level_name, 2, seed=3, env_processes=env_processes)
    starts = []

    def act(step: EnvironmentStep, action: np.ndarray) -> Choice:
        starts.append(step.first.tolist())
        assert len(starts) < 50
        return Choice(np.zeros(2, np.int32), np.zeros([2, 2]), np.zeros(2))

    player: Any = Namespace(start=lambda *_: None, act=act)
    with contextlib.closing(environment):
        games = play(environment, player, 5, seed=0, step_limit=10)
    assert [(game.length, game.finished) for game in games] == [(10, False)] * 5
    # A game is known to have gone on by one step more than its limit.
    assert starts == [[row % 12 == 0, row in (0, 12)] for row in range(36)]


@pytest.mark.xdist_group("remotes")
def test_a_game_in_real_time_that_is_cut_off_makes_room_for_the_next(monkeypatch):
    # Rows that come late are no steps; on a busy machine some are.
    monkeypatch.setattr("environments.realtime.environment.MOST_LATE_S", 60.0)
    environment = environments.make(f"vnc:{REFLEX}", 1, 1, fps=20, width=8, height=8)
    rows, choice = [], Choice(np.zeros(1, np.int32), np.zeros([1, 2]), np.zeros(1))

    def act(step: EnvironmentStep, action: np.ndarray) -> Choice:
        rows.append(step.first.copy())
        assert len(rows) < 400
        return choice  # which never ends a game

    player: Any = Namespace(start=lambda *_: None, act=act)
    with contextlib.closing(environment):
        games = play(environment, player, 3, seed=0, step_limit=10)
        assert environment.episodes() == []
    assert [(game.length, game.finished) for game in games] == [(10, False)] * 3


class Long(Shift):
    """A game whose last body leaves late."""

    def step(self, actions: dict[str, Any]) -> Any:
        observation, reward, terminated, truncated, info = super().step(actions)
        self.agents += ["whole"] if self._time == LENGTH else []
        return observation, reward, terminated, truncated | {"whole": False}, info


def long(env: Shift) -> Shift:
    """A wrapper of `--wrappers`."""
    return Long()


@pytest.mark.parametrize("shares", [[(0, 1, 2, 3)], [(1, 2), (3, 0)]])
def test_the_next_game_of_several_bodies_begins_where_all_who_play_have_been_cut_off(shares):
    environment = environments.make_shared(
        "pettingzoo:tests.environments.bodies.game", 2, 1, shares,
        whole_games=True, wrappers=f"{HERE}:long",
    )  # fmt: skip
    rows = []

    def player(part: VectorEnvironment) -> Any:
        count = part.num_envs
        choice = Choice(np.zeros(count, np.int32), np.zeros([count, 3]), np.zeros(count))

        def act(step: EnvironmentStep, action: np.ndarray) -> Choice:
            rows.append(step.first.all())
            assert len(rows) < 100
            return choice

        return Namespace(start=lambda *_: None, act=act)

    with contextlib.closing(environment):
        players = [player(part) for part in environment.parts]
        games = play_shared(environment, players, 4, seed=0, step_limit=8)
    lengths = [
        [game.length for game in of_agent if game.environment % len(mine) == mine.index(1)]
        for of_agent, mine in zip(games, shares, strict=True)
        if 1 in mine
    ]
    assert lengths == [[8] * 4]


class Alone(VectorEnvironment):
    """A game for two without end, in which one has no part."""

    num_envs = 2
    spec = EnvironmentSpec(
        "alone", Box(0, 1, [1], np.float32), Discrete(2), 1, 1, False, bodies=("one", "other")
    )

    def reset(self) -> EnvironmentStep:
        return self._row([True, True])

    def step(self, actions: np.ndarray) -> EnvironmentStep:
        return self._row([False, True])

    def episodes(self) -> list[Episode]:
        return []

    def render(self, index: int) -> None:
        return None

    def close(self) -> None:
        pass

    def _row(self, first: list[bool]) -> EnvironmentStep:
        zeros = np.zeros(2, np.float32)
        return EnvironmentStep(zeros[:, None], zeros + 1, zeros > 0, np.array(first))


def test_a_game_is_over_where_all_who_play_have_been_cut_off():
    rows = []
    choice = Choice(np.zeros(2, np.int32), np.zeros([2, 2]), np.zeros(2))

    def act(step: EnvironmentStep, action: np.ndarray) -> Choice:
        rows.append(step)
        assert len(rows) < 50
        return choice

    environment = Alone()
    player: Any = Namespace(start=lambda *_: None, act=act)
    [game] = play(environment, player, 1, seed=0, step_limit=7)
    assert (game.length, game.finished, game.environment) == (7, False, 0)


def test_each_combination_is_played_with_its_settings_and_reported(tmp_path, capsys):
    make_run(tmp_path, f"{UNEVEN}")
    report = evaluate(
        Settings(
            mode="test", logdir=str(tmp_path), grid="step_limit=0,7;episodes=4,6;temperature=0"
        )
    )
    found = json.loads((tmp_path / "evaluation_grid.json").read_text())["grid"]
    assert [row["settings"] for row in found] == [
        {"step_limit": limit, "test_num_episodes": games, "test_temperature": 0.0}
        for limit in (0, 7)
        for games in (4, 6)
    ]
    for row in found:
        limit, games = row["settings"]["step_limit"], row["settings"]["test_num_episodes"]
        assert row["episodes"] == games == len(row["returns"])
        assert row["unfinished"] == row["finished"].count(False)
        assert bool(row["unfinished"]) == bool(limit)
        assert row["mean"] == pytest.approx(np.mean(row["returns"]))
        low, high = row["interval_of_mean"]
        assert low <= row["mean"] <= high
    assert report["grid"][0]["returns"] == found[0]["returns"]
    assert (tmp_path / "evaluation_grid.png").read_bytes()[:4] == b"\x89PNG"
    printed = capsys.readouterr().out
    assert "step_limit=7 episodes=6" in printed and "cut off" in printed
    curves = EventAccumulator(str(tmp_path / "evaluation"))
    curves.Reload()
    tag = "mean_reward/eval/sampling_temp_0_max_noops_30_step_limit_7_test_num_episodes_6"
    [event] = curves.Scalars(f"{tag}_unclipped")
    assert (event.step, event.value) == (1000, pytest.approx(found[3]["mean"]))
    assert curves.Scalars(f"{tag}_clipped")


class Stops(Uneven):
    """The same until somebody presses Ctrl-C, while it is made for the third time or later."""

    made = 0

    def __init__(self) -> None:
        Stops.made += 1
        if Stops.made > 2:
            raise KeyboardInterrupt


def test_what_was_played_before_an_interruption_is_kept(tmp_path, capsys, monkeypatch):
    make_run(tmp_path, UNEVEN)
    monkeypatch.setattr(Stops, "made", 0)
    settings = Settings(mode="test", logdir=str(tmp_path), level_name=f"{HERE}:Stops")
    with pytest.raises(KeyboardInterrupt):
        evaluate(settings.replace(grid="test_policy=greedy,random;episodes=1"))
    [row] = json.loads((tmp_path / "evaluation_grid.json").read_text())["grid"]
    assert row["settings"]["test_policy"] == "greedy" and row["episodes"] == 1
    printed = capsys.readouterr().out
    assert "test_policy=greedy episodes=1" in printed and "evaluation_grid.json" in printed
    assert "test_policy=random" not in printed
    assert not (tmp_path / "evaluation_grid.png").exists()


def test_games_against_another_opponent_have_a_curve_of_their_own():
    (cell,) = grid.cells("temperature=0")
    tags = [
        grid_report.Played(cell, Settings(**cell.changes, opponent=one), "L", {}).tag
        for one in ("", "random", "logs/before")
    ]
    alone = "mean_reward/eval/sampling_temp_0_max_noops_30"
    assert tags == [alone, f"{alone}_against_random", f"{alone}_against_logs/before"]


def test_tensorboard_keeps_all_evaluations_whichever_checkpoint_is_the_older(tmp_path):
    for frames in (1000, 2000):
        make_run(tmp_path, UNEVEN, frames=frames)
    chosen = Settings(mode="test", logdir=str(tmp_path), grid="episodes=3")
    means = {}
    for seed, frames in enumerate([2000, 1000, 2000]):
        report = evaluate(chosen.replace(checkpoint=str(frames), seed=seed))
        means[frames] = report["grid"][0]["mean"]
    curves = EventAccumulator(str(tmp_path / "evaluation"))
    curves.Reload()
    tag = "mean_reward/eval/sampling_temp_1_max_noops_30_test_num_episodes_3_unclipped"
    assert [one.step for one in curves.Scalars(tag)] == [1000, 2000]
    assert {one.step: one.value for one in curves.Scalars(tag)} == pytest.approx(means)
    assert len(list((tmp_path / "evaluation").iterdir())) == 1


def test_a_full_disk_keeps_earlier_evaluations(tmp_path):
    grid_report.add_events(tmp_path, 2000, {"mean": 2.0})
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with files_limited_to(10), pytest.raises(OSError):
        grid_report.add_events(tmp_path, 1000, {"mean": 1.0})
    assert {path: path.read_bytes() for path in before} == before
    grid_report.add_events(tmp_path, 1000, {"mean": 1.0})
    curves = EventAccumulator(str(tmp_path))
    curves.Reload()
    assert [(one.step, one.value) for one in curves.Scalars("mean")] == [(1000, 1.0), (2000, 2.0)]


def test_rewards_are_clipped_one_by_one(tmp_path):
    make_run(tmp_path, "LunarLander-v3")
    settings = Settings(mode="test", logdir=str(tmp_path), step_limit=50, test_num_episodes=2)
    figures = evaluate(settings)["levels"]["LunarLander-v3"]
    assert all(abs(clipped) <= 50 for clipped in figures["clipped_returns"])
    assert figures["clipped_mean"] != figures["mean"]


def test_values_of_actions_are_sampled_by_their_softmax_over_the_temperature(tmp_path):
    settings = make_run(tmp_path, "CartPole-v1", algorithm="dqn")
    found = trained_agent.find(Settings(mode="test", logdir=str(tmp_path)))
    agent, algorithm = found.agent(build.level_spec(settings)), build.algorithm(found.settings)
    with contextlib.closing(build.test_environment(settings, 0, 1, 1)) as environment:
        row, last = environment.reset(), np.zeros(1, np.int32)
        for temperature in (0.5, 50.0):
            player = Player(agent, algorithm, False, temperature)
            player.start(1, seed=1)
            choices = [player.act(row, last) for _ in range(400)]
            values = choices[0].policy[0]
            expected = float(tf.nn.softmax(values / temperature)[1])
            assert np.mean([one.action[0] for one in choices]) == pytest.approx(expected, abs=0.08)


def test_random_play_is_one_of_the_policies(tmp_path):
    make_run(tmp_path, "CartPole-v1")
    report = evaluate(
        Settings(mode="test", logdir=str(tmp_path), grid="test_policy=random,greedy;episodes=20")
    )
    random, greedy = (cell["mean"] for cell in report["grid"])
    assert 15 < random < 32 and greedy != random  # random play balances for 22 steps
    curves = EventAccumulator(str(tmp_path / "evaluation"))
    curves.Reload()
    assert any("eval/random_max_noops" in tag for tag in curves.Tags()["scalars"])


def test_videos_of_each_combination_are_recorded(tmp_path):
    make_run(tmp_path, DRAWN)
    evaluate(
        Settings(
            mode="test",
            logdir=str(tmp_path),
            grid="step_limit=0,3",
            test_num_episodes=2,
            num_videos=2,
        )
    )
    level = "tests.trainer.untrained_Continuous"
    assert sorted(path.name for path in (tmp_path / "videos").iterdir()) == [
        f"{level}_step_limit={limit}_{number}.mp4" for limit in (0, 3) for number in (1, 2)
    ]
    assert all(path.stat().st_size > 500 for path in (tmp_path / "videos").iterdir())


def test_a_full_disk_costs_the_files_and_not_the_figures(tmp_path, capsys, monkeypatch):
    make_run(tmp_path, UNEVEN)

    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("trainer.trained.grid_report.write_whole", full)
    monkeypatch.setattr("trainer.storage.records.write_whole", full)
    settings = Settings(mode="test", logdir=str(tmp_path), grid="episodes=2")
    assert evaluate(settings)["grid"][0]["episodes"] == 2
    assert capsys.readouterr().out.count("could not be written (No space left on device)") == 2
    assert not (Path(tmp_path) / "evaluation_grid.png").exists()


def test_the_interval_covers_the_mean_as_often_as_it_says():
    random = np.random.default_rng(1)
    intervals = [interval_of_mean(list(random.normal(3.0, 2.0, 30))) for _ in range(200)]
    covered = sum(low <= 3.0 <= high for low, high in filter(None, intervals))
    assert 180 <= covered <= 198
    assert interval_of_mean([1.0]) is None
