"""Evaluation: the games that are played, their figures, and refusals."""

import contextlib
import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from ale_py import roms

import environments
import experiment
from algorithms.impala import Impala
from algorithms.own_settings.impala import ImpalaSettings
from environments import EnvironmentStep, Episode, VectorEnvironment
from environments.levels import environment_seeds
from environments.tally import Tally
from tests.trainer.disks import files_limited_to
from tests.trainer.untrained import Uneven, make_run
from trainer import build
from trainer.acting.playing import Game, Player, play
from trainer.settings.config import Settings
from trainer.storage.records import write_report
from trainer.trained import human_scores, scoreboard
from trainer.trained import trained_agent as trained
from trainer.trained.evaluation import evaluate, seed_of_level, summary
from user_error import UserError

UNEVEN = "tests.trainer.untrained:Uneven"


@pytest.fixture
def cartpole(tmp_path: Path) -> Path:
    make_run(tmp_path / "run", "CartPole-v1")
    return tmp_path / "run"


def test_settings(folder: Path, **changes: Any) -> Settings:
    return Settings(mode="test", logdir=str(folder), **changes)


test_settings.__test__ = False  # type: ignore[attr-defined]


def results(folder: Path, **changes: Any) -> dict[str, Any]:
    """Evaluates, and reads the report."""
    evaluate(test_settings(folder, **changes))
    return json.loads((folder / "evaluation.json").read_text())


def refused(folder: Path, **changes: Any) -> str:
    with pytest.raises(UserError) as caught:
        evaluate(test_settings(folder, **changes))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_greedy_games_are_those_of_a_plain_loop_over_plain_gymnasium(cartpole):
    make_run(cartpole, "CartPole-v1", seed=8)  # an agent that tilts either way
    found = results(cartpole, test_num_episodes=18, test_policy="greedy", seed=5)
    settings = trained.find(test_settings(cartpole)).settings
    agent = trained.find(test_settings(cartpole)).agent(build.level_spec(settings))
    played = [
        game
        for index, seed in enumerate(environment_seeds(seed_of_level(5, 0), 16))
        for game in plain_games(agent, int(seed), count=2 if index < 2 else 1)
    ]
    assert found["levels"]["CartPole-v1"]["returns"] == [float(length) for length in played]
    assert found["levels"]["CartPole-v1"]["lengths"] == played
    assert len(set(played)) > 2


def plain_games(agent: Any, seed: int, count: int) -> list[int]:
    """Lengths of greedy games, played one step and one environment at a time."""

    @tf.function(reduce_retracing=True)
    def think(observation, reward, action, first, state):
        output, state = agent(observation, reward, action, first, state)
        return agent.distribution.mode(output.policy[0, 0]), state

    reward: Any
    env, state, lengths = gymnasium.make("CartPole-v1"), agent.initial_state(1), []
    for game in range(count):
        observation, _ = env.reset(seed=seed if game == 0 else None)
        reward, action, length, over = 0.0, 0, 0, False
        while not over:
            row = (observation[None, None], [[reward]], [[action]], [[length == 0]])
            kinds = (tf.float32, tf.float32, tf.int32, tf.bool)
            chosen, state = think(*map(tf.constant, row, kinds), state)
            action = int(chosen)
            observation, reward, terminated, truncated, _ = env.step(action)
            length, over = length + 1, terminated or truncated
        lengths.append(length)
    return lengths


def test_long_and_short_games_count_alike():
    """Of 30 games, the first 30 to end would nearly all be the short ones."""
    environment = environments.make(UNEVEN, 16, seed=3)
    agent = build.acting_agent(Settings(), environment.spec)
    episodes = play(
        environment, Player(agent, Impala(ImpalaSettings(), levels=1), greedy=False), 30, seed=1
    )
    expected = []
    for index, seed in enumerate(environment_seeds(3, 16)):
        env = Uneven()
        env.reset(seed=int(seed))
        expected.append(env.left)
        if index < 14:
            expected.append(env.draw())
    assert [episode.length for episode in episodes] == expected
    assert 5 < expected.count(40) < 25


class Interrupted(VectorEnvironment):
    """One game of 6 steps after another, each with a row in its middle that is `first`."""

    pictures_per_second = 1.0

    def __init__(self) -> None:
        with contextlib.closing(environments.make("CartPole-v1", 1, seed=1)) as environment:
            self.spec, self.num_envs = environment.spec, 1

    def reset(self) -> EnvironmentStep:
        self._row, self._ended = 0, False
        return self._shown()

    def step(self, actions: np.ndarray) -> EnvironmentStep:
        self._row = (self._row + 1) % 7
        self._ended = self._row == 6
        return self._shown()

    def _shown(self) -> EnvironmentStep:
        first = np.array([self._row in (0, 3)])
        reward = np.where(first, 0, np.float32(1))
        shape = self.spec.observation_space.shape
        return EnvironmentStep(np.zeros([1, *shape], np.float32), reward, first & False, first)

    def episodes(self) -> list[Episode]:
        return [Episode(0, 6.0, 5, 5, clipped_return=4.0)] if self._ended else []

    def render(self, index: int) -> None:
        return None

    def close(self) -> None:
        pass


def test_a_game_goes_on_after_a_row_in_its_middle_from_which_nothing_is_learned():
    environment = Interrupted()
    agent = build.acting_agent(Settings(), environment.spec)
    player = Player(agent, Impala(ImpalaSettings(), levels=1), greedy=False)
    games = play(environment, player, 3, seed=1)
    assert [game.raw_return for game in games] == [6.0, 6.0, 6.0]
    assert [game.clipped_return for game in games] == [4.0, 4.0, 4.0]


class Late(Interrupted):
    """One game of 20 rows after another, which give their numbers; one within each is late."""

    def __init__(self, late: int) -> None:
        super().__init__()
        self._late, self._tally = late, Tally(1, 0)

    def step(self, actions: np.ndarray) -> EnvironmentStep:
        self._row = (self._row + 1) % 21
        shown = self._shown()
        self._tally.add(shown.reward, ~shown.first)
        self._tally.finish(np.array([self._row == 20]))
        return shown

    def _shown(self) -> EnvironmentStep:
        first, shape = np.array([self._row in (0, self._late)]), self.spec.observation_space.shape
        reward = np.where(first, 0, np.float32(self._row))
        return EnvironmentStep(np.zeros([1, *shape], np.float32), reward, first & False, first)

    def episodes(self) -> list[Episode]:
        return self._tally.take()

    def running(self) -> list[Episode]:
        return self._tally.running()


@pytest.mark.parametrize(
    ("late", "raw_return"), [(5, 61.0), (10, 56.0), (11, 55.0), (12, 55.0), (20, 55.0)]
)
def test_a_late_row_within_a_game_that_is_cut_off_begins_no_other(late, raw_return):
    environment = Late(late)
    agent = build.acting_agent(Settings(), environment.spec)
    player = Player(agent, Impala(ImpalaSettings(), levels=1), greedy=False)
    games = play(environment, player, 2, seed=1, step_limit=10)
    found = [(one.length, one.raw_return, one.finished) for one in games]
    assert found == [(10, raw_return, False)] * 2


def test_no_games_have_no_figures():
    with pytest.raises(UserError, match="CartPole-v1: no game was played"):
        summary("CartPole-v1", [])


def test_the_report_says_what_was_played_and_how(cartpole, capsys):
    found = results(cartpole, test_num_episodes=3)
    printed = capsys.readouterr().out
    level = found["levels"]["CartPole-v1"]
    returns = np.array(level["returns"])
    assert level["episodes"] == len(returns) == 3
    assert level["lengths"] == level["frames"] == returns.tolist()
    for name, figure in {
        "mean": returns.mean(),
        "median": np.median(returns),
        "standard_deviation": returns.std(ddof=1),
        "min": returns.min(),
        "max": returns.max(),
        "mean_length": returns.mean(),
    }.items():
        assert level[name] == pytest.approx(figure)
        shown = f"{figure:.1f}" if name == "mean_length" else f"{figure:.2f}"
        assert shown.removesuffix(".00" if name in ("min", "max") else "") in printed
    assert found["environment_frames"] == 1000
    assert found["checkpoint"].endswith("frames-000000000001000.npz")
    assert found["checkpoint"].split("/")[-1] in printed
    assert (found["policy"], found["seed"]) == ("sampled", 1)
    assert found["settings"]["agent_name"] == "VectorAgent"
    assert level["human_normalised_percent"] is None


def test_a_reward_that_is_no_number_is_null_in_the_report_which_stays_json(tmp_path):
    games = [Game(float("nan"), 1.0, 3, 3, True)] * 2
    write_report(
        tmp_path / "new" / "evaluation.json", {"levels": {"L": summary("CartPole-v1", games)}}
    )
    text = (tmp_path / "new" / "evaluation.json").read_text()
    level = json.loads(text, parse_constant=pytest.fail)["levels"]["L"]
    assert level["mean"] is None and level["returns"] == [None, None]
    assert level["clipped_mean"] == 1


def test_the_same_seed_plays_the_same_games(cartpole):
    one, two, other = (results(cartpole, seed=seed)["levels"] for seed in (3, 3, 4))
    assert one == two != other


def test_the_run_s_own_settings_apply_unless_others_are_given(tmp_path):
    trained_with: dict[str, Any] = {"width": 44, "height": 44, "num_action_repeats": 20}
    make_run(tmp_path, "PongNoFrameskip-v4", agent_name="ResNetLSTMAgent", **trained_with)
    given = {"num_action_repeats": 40, "test_num_episodes": 2}
    found = results(tmp_path, **given)
    for name, value in (trained_with | given | {"agent_name": "ResNetLSTMAgent"}).items():
        assert found["settings"][name] == value
    pong = found["levels"]["PongNoFrameskip-v4"]
    assert all(-21 <= one <= 21 for one in pong["returns"])
    assert all(f > 40 * 4 * (n - 1) for f, n in zip(pong["frames"], pong["lengths"], strict=True))
    expected = 100 * (np.mean(pong["returns"]) + 20.7) / (14.6 + 20.7)
    assert pong["human_normalised_percent"] == pytest.approx(expected)
    assert found["human_normalised_percent"] == pytest.approx(expected)


def test_a_mean_of_human_scores_says_of_how_many_levels_it_is(tmp_path, capsys):
    levels = "PongNoFrameskip-v4,adventure"  # there are no published scores of the second
    make_run(tmp_path, levels, agent_name="SimpleConvNetAgent", full_action_set=True)
    results(tmp_path, test_num_episodes=1, step_limit=2)
    assert "Human-normalised, mean over 1 of 2 levels: " in capsys.readouterr().out


def test_what_an_algorithm_s_own_defaults_gave_the_run_applies_without_naming_it(tmp_path):
    mine = "tests.trainer.untrained:Mine"
    make_run(tmp_path, "CartPole-v1", algorithm=mine)
    for changes, repeats in (({}, 4), ({"num_action_repeats": 2}, 2), ({"algorithm": mine}, 4)):
        found = trained.find(test_settings(tmp_path, **changes)).settings
        assert (found.program.algorithm, found.agent.activation) == (mine, "relu")
        assert found.level.num_action_repeats == repeats
    make_run(tmp_path / "usual", "CartPole-v1", activation="tanh")
    found = trained.find(test_settings(tmp_path / "usual", algorithm=mine)).settings
    assert (found.agent.activation, found.level.num_action_repeats) == ("tanh", 1)


def test_each_level_has_its_row_and_its_own_games(tmp_path, capsys):
    make_run(tmp_path, "CartPole-v1,CartPole-v0")
    found = results(tmp_path, test_num_episodes=4)["levels"]
    assert list(found) == ["CartPole-v1", "CartPole-v0"]
    assert found["CartPole-v1"]["returns"] != found["CartPole-v0"]["returns"]
    assert "CartPole-v0" in capsys.readouterr().out
    one = results(tmp_path, test_num_episodes=4, level_name="CartPole-v0")["levels"]
    assert list(one) == ["CartPole-v0"]


def test_only_the_named_one_of_several_levels_is_played_even_if_it_is_the_default(tmp_path):
    levels = f"{Settings().level.level_name},BreakoutNoFrameskip-v4"
    small = {"full_action_set": True, "width": 36, "height": 36, "num_action_repeats": 40}
    make_run(tmp_path, levels, **small)
    flags = ["--mode=test", f"--logdir={tmp_path}", "--test_num_episodes=1"]
    for named in ([f"--level_name={Settings().level.level_name}"], []):
        assert experiment.main([*flags, *named]) == 0
        played = json.loads((tmp_path / "evaluation.json").read_text())["levels"]
        assert list(played) == levels.split(",")[: 1 if named else 2]


def test_on_a_full_disk_the_table_is_printed_and_nothing_is_left_behind(cartpole, capsys):
    with files_limited_to(100):
        evaluate(test_settings(cartpole))
    printed = capsys.readouterr().out
    assert "mean" in printed
    assert "evaluation.json could not be written (File too large)" in printed
    assert [path.name for path in cartpole.iterdir()] == ["checkpoints"]


def test_a_checkpoint_is_chosen_by_name_frames_or_file(cartpole):
    make_run(cartpole, "CartPole-v1", frames=5000, seed=9)
    file = cartpole / "checkpoints" / "frames-000000000001000.npz"
    assert results(cartpole)["environment_frames"] == 5000
    assert results(cartpole, checkpoint="1000")["environment_frames"] == 1000
    evaluate(Settings(mode="test", checkpoint=str(file)))
    report = json.loads((cartpole / "evaluation.json").read_text())
    assert report["environment_frames"] == 1000
    (cartpole / "checkpoints" / "best.npz").write_bytes(file.read_bytes())
    assert results(cartpole, checkpoint="best")["checkpoint"].endswith("best.npz")


def test_a_checkpoint_cut_in_half_is_replaced_by_the_previous_one(cartpole, capsys):
    make_run(cartpole, "CartPole-v1", frames=5000)
    newest = cartpole / "checkpoints" / "frames-000000000005000.npz"
    newest.write_bytes(newest.read_bytes()[: newest.stat().st_size // 2])
    assert results(cartpole)["environment_frames"] == 1000
    (warning,) = capsys.readouterr().err.splitlines()
    assert "frames-000000000005000.npz" in warning
    assert "damaged" in refused(cartpole, checkpoint="5000")


def test_an_error_for_a_missing_checkpoint_names_its_place(tmp_path, cartpole):
    assert str(tmp_path / "nowhere") in refused(tmp_path / "nowhere")
    assert "1000" in refused(cartpole, checkpoint="2000")
    assert "--checkpoint=missing" in refused(cartpole, checkpoint="missing")


def test_a_path_that_cannot_be_read_is_reported(tmp_path, cartpole):
    long, loop = "x" * 300, tmp_path / "loop"
    assert str(tmp_path / long) in refused(tmp_path / long)
    assert f"--checkpoint={long}: " in refused(cartpole, checkpoint=long)
    (cartpole / "checkpoints").rename(tmp_path / "moved")
    (cartpole / "checkpoints").write_text("a file where the folder should be")
    assert "there is no checkpoint in" in refused(cartpole)
    loop.symlink_to(loop)
    assert "there is no checkpoint in" in refused(loop)


@pytest.mark.parametrize(
    ("name", "value"), [("agent_name", "VectorLSTMAgent"), ("level_name", "Acrobot-v1")]
)
def test_weights_that_do_not_fit_are_refused_with_the_flag_that_differs(cartpole, name, value):
    error = refused(cartpole, **{name: value})
    assert f"--{name}={value}" in error
    assert {"agent_name": "VectorAgent", "level_name": "CartPole-v1"}[name] in error


def test_popart_gives_values_in_each_level_s_own_units(tmp_path):
    make_run(tmp_path, "CartPole-v1,CartPole-v0", popart=True)
    found = trained.find(test_settings(tmp_path, level_name="CartPole-v0"))
    found.checkpoint.algorithm["popart_mean"][:] = [2.0, 3.0]
    found.checkpoint.algorithm["popart_variance"][:] = [9.0, 4.0]
    assert found.value("CartPole-v1")(np.array([1.0, 10.0])) == pytest.approx(2 + 3 * 1)
    assert found.value("CartPole-v0")(np.array([1.0, 10.0])) == pytest.approx(3 + 2 * 10)
    assert results(tmp_path, level_name="CartPole-v0", test_num_episodes=1)["levels"]


@pytest.mark.parametrize(("before", "now", "value"), [(True, False, 5.0), (False, True, 1.0)])
def test_values_are_in_the_units_of_the_training_whatever_the_command_says(
    tmp_path, before, now, value
):
    make_run(tmp_path, "CartPole-v1", popart=before)
    settings = test_settings(tmp_path, popart=now, test_num_episodes=1)
    assert trained.find(settings, {"popart"}).value("CartPole-v1")(np.array(1.0)) == value
    assert evaluate(settings, {"popart"})["levels"]


PICTURES = "tests.trainer.levels:Pictures"


def test_another_algorithm_with_the_same_outputs_plays_the_same_games(tmp_path):
    made = make_run(tmp_path, PICTURES, algorithm="a2c")
    plain = test_settings(tmp_path, test_num_episodes=2)
    assert made.program.algorithm == trained.find(plain).settings.program.algorithm == "a2c"
    other = evaluate(plain.replace(algorithm="impala"), {"algorithm"})
    assert other["settings"]["algorithm"] == "impala"
    assert other["levels"] == evaluate(plain)["levels"]


@pytest.mark.parametrize(
    ("level", "before", "now"),
    [
        (PICTURES, {"algorithm": "dqn"}, {"algorithm": "impala"}),
        ("CartPole-v1", {"activation": "tanh"}, {"activation": "relu"}),
    ],
)
def test_weights_of_the_same_shapes_that_mean_something_else_are_refused(
    tmp_path, level, before, now
):
    make_run(tmp_path, level, **before)
    with pytest.raises(UserError) as caught:
        evaluate(test_settings(tmp_path, test_num_episodes=1, **now), set(now))
    ((name, value),) = now.items()
    assert f"--{name}={value} does not fit the weights in {tmp_path}" in str(caught.value)
    assert f"were trained with --{name}={before[name]}." in str(caught.value)


def test_there_are_human_scores_of_57_games():
    assert len(human_scores.SCORES) == 57
    assert set(human_scores.SCORES) <= set(roms.get_all_rom_ids())
    assert all(human > random for random, human in human_scores.SCORES.values())
    assert human_scores.human_normalised("ALE/Breakout-v5", 30.5) == pytest.approx(100)
    assert human_scores.human_normalised("BreakoutNoFrameskip-v4", 1.7) == pytest.approx(0)
    assert human_scores.human_normalised("AirRaidNoFrameskip-v4", 1.0) is None
    assert human_scores.human_normalised("CartPole-v1", 1.0) is None


@pytest.mark.filterwarnings("error")
def test_a_first_game_that_was_an_opponent_s_is_not_counted(capsys, monkeypatch):
    monkeypatch.setattr(scoreboard, "PLAIN_REPORT_EVERY_S", 0)
    with scoreboard.Counter(scoreboard.console(), "Pong", 2) as counter:
        counter.add([])
        counter.add([3.0])
    assert capsys.readouterr().out == "Pong: 1 of 2 games, mean return 3.00\n"
