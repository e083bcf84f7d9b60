"""What users may ask of a training besides its length: when it ends, and what it starts from."""

import os
import threading
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import tensorflow as tf

from agents.vector import VectorAgent
from environments import RandomActions
from tests.environments.test_masks import HERE as MASKS
from tests.trainer import launching
from tests.trainer.launching import newest
from tests.trainer.levels import Breaks, Pictures, Steps, Tens, Unhurried, level
from tests.trainer.training import block, parts, small
from tests.trainer.untrained import make_run
from trainer.acting.acting_agent import ActingAgent
from trainer.acting.playing import Player
from trainer.build import networks
from trainer.programs import local, local_actors
from trainer.programs.local import train
from trainer.programs.local_actors import ActorFailed
from trainer.programs.outcome import OnReport, Outcome, ignore
from trainer.programs.run import Run
from trainer.programs.stopping import StopSignal
from trainer.settings.config import Settings
from trainer.storage.records import read_metrics
from trainer.trained import alongside, video
from user_error import UserError


@pytest.fixture(autouse=True)
def threads(monkeypatch):
    """Keeps TensorFlow's threads, which cannot change now."""
    monkeypatch.setattr(local.cores, "divide", lambda **_: 1)


def run(
    folder: Path, stop: StopSignal | None = None, on_report: OnReport = ignore, **changes: Any
) -> Outcome:
    """A training of 10,000 frames, unless it ends before."""
    chosen: dict[str, Any] = {
        "level_name": level(Steps),
        "logdir": str(folder),
        "total_environment_frames": 10_000,
        "envs_per_actor": 2,
        "batch_size": 4,
        "unroll_length": 5,
        "replay_share": 0.0,
        "precision": "float32",
    }
    return train(Settings(**chosen | changes), stop, on_report, companions=alongside.start)


def test_a_training_ends_at_a_return(tmp_path):
    outcome = run(tmp_path, stop_at_return=7.0)
    assert outcome.reason == "the mean return is 7 (--stop_at_return=7)"
    assert 100 <= outcome.figures["episodes"] < 300
    assert newest(tmp_path).counters["environment_frames"] < 10_000
    again = run(tmp_path, stop_at_return=7.0)
    assert again.figures["environment_frames"] == outcome.figures["environment_frames"]
    other = run(tmp_path / "other", stop_at_return=7.5, total_environment_frames=2000)
    assert other.reason == "all frames are played" and other.figures["episodes"] > 100


def test_a_training_ends_after_a_time(tmp_path):
    endless: dict[str, Any] = {"level_name": level(Unhurried), "total_environment_frames": 10**9}
    outcome = run(tmp_path, stop_after_s=10.0, **endless)
    assert outcome.reason == "10 s have passed (--stop_after_s)"
    assert outcome.figures["time_left"] > 0


def test_the_learning_rate_falls_or_stays(tmp_path):
    for schedule, last in ("linear", 0.0), ("constant", 1e-3):
        folder = tmp_path / schedule
        steps: dict[str, Any] = {"batch_size": 1, "envs_per_actor": 1}
        steps["total_environment_frames"] = 1000
        run(folder, learning_rate=1e-3, learning_rate_schedule=schedule, **steps)
        assert read_metrics(folder)[-1]["learning_rate"] == pytest.approx(last, abs=1e-5)


def test_a_run_starts_from_the_weights_of_another(tmp_path, capsys):
    run(tmp_path / "first", total_environment_frames=500)
    taught = newest(tmp_path / "first")
    # So small a step changes nothing that float32 could show.
    changes: dict[str, Any] = {"learning_rate": 1e-30, "total_environment_frames": 300}
    run(tmp_path / "second", initial_weights=str(tmp_path / "first"), **changes)
    assert "Starting with the agent of " in capsys.readouterr().out
    second = newest(tmp_path / "second")
    assert 300 <= second.counters["environment_frames"] < 400  # counted afresh
    for name, value in taught.weights.items():
        # PopArt changes the units of the one, and what is seen those of the other.
        if "baseline" not in name and "normaliser" not in name:
            np.testing.assert_allclose(second.weights[name], value, atol=1e-5)
    seen = taught.algorithm["popart_seen"][0] + second.counters["updates"]
    assert second.algorithm["popart_seen"][0] == seen
    run(tmp_path / "second", initial_weights=str(tmp_path / "first"), total_environment_frames=600)
    assert "Resuming from" in capsys.readouterr().out
    # A resume that leaves the flag out does not make it wrong in the next one.
    run(tmp_path / "second", total_environment_frames=700)
    run(tmp_path / "second", initial_weights=str(tmp_path / "first"), total_environment_frames=800)
    assert newest(tmp_path / "second").settings["initial_weights"] == str(tmp_path / "first")
    kept = (tmp_path / "second" / "settings.json").read_bytes()
    for folder, trained in (
        ("first", "without that flag"),
        ("second", "with --initial_weights=.*/first"),
    ):
        with pytest.raises(UserError, match=f"nowhere: the run in .* which was trained {trained}"):
            run(tmp_path / folder, initial_weights="nowhere", total_environment_frames=900)
    assert (tmp_path / "second" / "settings.json").read_bytes() == kept


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("nowhere", "--initial_weights=.*nowhere: expected a run's folder with checkpoints"),
        ("first", "its weights do not fit this agent. They were trained with --agent_name=Vector"),
    ],
)
def test_weights_that_cannot_be_used_are_refused_and_nothing_is_written(tmp_path, source, message):
    make_run(tmp_path / "first", level(Steps))
    with pytest.raises(UserError, match=message):
        run(tmp_path / "new", initial_weights=str(tmp_path / source), hidden_sizes="9")
    assert not list((tmp_path / "new").glob("*.json*"))


def test_whole_games_are_played_beside_a_training_and_reported(tmp_path, capsys):
    stop, evaluated = StopSignal(), list[Any]()

    def on_report(figures: dict[str, Any]) -> None:
        if "evaluation_return" in figures:
            evaluated.append(figures)
        if len(evaluated) >= 2:
            stop.request("the test")

    run(
        tmp_path,
        stop,
        on_report,
        level_name=f"{level(Steps)},{level(Tens)}",
        evaluate_every_s=0.2,
        test_num_episodes=3,
        report_every_s=0.2,
        stop_after_s=60.0,
        total_environment_frames=10**9,
    )
    rows = [row for row in read_metrics(tmp_path) if "evaluation_return" in row]
    assert len(rows) >= 2
    assert {row["evaluation_return"] for row in rows} == {(7.0 + 30.0) / 2}
    assert {row[f"evaluation_return/{level(Tens)}"] for row in rows} == {30.0}
    frames = [row["evaluation_frames"] for row in rows]
    assert frames == sorted(set(frames)) and frames[0] <= rows[0]["environment_frames"]
    printed = capsys.readouterr().out
    assert f"evaluated at {frames[0]:,} frames: mean return 18.5 of 3 games a level" in printed


def test_an_evaluation_waits_until_the_last_one_s_result_is_reported():
    settings = small(level(Steps), evaluate_every_s=1e-6, test_num_episodes=1)
    made, said = parts(settings), list[str]()
    evaluations = alongside.Evaluations(settings, made.spec, said.append)

    def played(count: int, frames: int) -> bool:
        until = time.monotonic() + 60
        while len(said) < count and time.monotonic() < until:
            evaluations.offer(made.learner, frames)
            time.sleep(0.01)
        return len(said) == count and evaluations._ready.wait(60)

    assert played(1, frames=100)
    evaluations.offer(made.learner, 200)
    assert evaluations._ready.is_set()  # still waits for weights
    assert evaluations.figures()["evaluation_frames"] == 100
    assert played(2, frames=300)
    assert evaluations.figures()["evaluation_frames"] == 300
    evaluations.close()


def test_a_training_goes_on_if_its_evaluation_cannot(tmp_path, capsys, monkeypatch):
    def broken(*_: Any) -> Any:
        raise OSError("no such simulator")

    monkeypatch.setattr(alongside.build, "test_environment", broken)
    outcome = run(tmp_path, evaluate_every_s=0.01)
    assert outcome.reason == "all frames are played"
    assert "warning: evaluation ended with OSError: no such simulator" in capsys.readouterr().out


def test_an_evaluation_that_hangs_does_not_keep_the_process(tmp_path, capsys, monkeypatch):
    released = threading.Event()

    def hanging(*_: Any) -> Any:
        released.wait()
        raise OSError("released")

    monkeypatch.setattr(alongside.build, "test_environment", hanging)
    monkeypatch.setattr("trainer.machine.threads.END_WITHIN_S", 0.2)
    try:
        outcome = run(tmp_path, evaluate_every_s=0.01, total_environment_frames=500)
        assert outcome.reason == "all frames are played"
        assert "warning: evaluation did not end within 0.2 s" in capsys.readouterr().out
    finally:
        released.set()


def test_a_training_can_be_watched(tmp_path, monkeypatch):
    stop, shown = StopSignal(), list[Any]()
    monkeypatch.setenv("DISPLAY", ":1")  # for the check; SDL draws nowhere
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    show = video.Window.show

    def note(window: Any, picture: np.ndarray) -> None:
        shown.append(picture.shape)
        if len(shown) > 20:
            stop.request("the test")
        show(window, picture)

    monkeypatch.setattr(video.Window, "show", note)
    run(tmp_path, stop, level_name="CartPole-v1", watch=True, stop_after_s=60.0,
        total_environment_frames=10**9)  # fmt: skip
    assert len(shown) > 20 and len(set(shown)) == 1


def watched(monkeypatch: pytest.MonkeyPatch, is_enough: Callable[[], Any], **changes: Any) -> str:
    """What is said of games that are watched until that is enough."""
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    made, said = parts(small(watch=True, **changes)), list[str]()
    watching = alongside.Watching(made.settings, made.spec, said.append)
    until = time.monotonic() + 60
    while not (said or is_enough()) and time.monotonic() < until:
        watching.offer(made.learner, 0)
        time.sleep(0.01)
    watching.close()
    return "\n".join(said)


def test_a_game_ends_with_the_window_in_which_it_is_watched(monkeypatch):
    acted, act = [], Player.act

    def counted(*given: Any) -> Any:
        acted.append(given)
        return act(*given)

    def closed(window: Any, picture: np.ndarray) -> None:
        window._open = False

    monkeypatch.setattr(Player, "act", counted)
    monkeypatch.setattr(video.Window, "show", closed)

    def has_ended() -> bool:
        return alongside.Watching.name not in [one.name for one in threading.enumerate()]

    assert not watched(monkeypatch, has_ended, level_name="CartPole-v1")
    assert len(acted) == 1


def test_a_game_that_is_watched_is_cut_off_at_the_step_limit(monkeypatch):
    games, start, act = list[int](), Player.start, Player.act

    def started(player: Player, *given: Any) -> None:
        games.append(0)
        start(player, *given)

    def counted(*given: Any) -> Any:
        games[-1] += 1
        return act(*given)

    monkeypatch.setattr(Player, "start", started)
    monkeypatch.setattr(Player, "act", counted)
    monkeypatch.setattr(video.Window, "show", lambda *_: None)
    said = watched(monkeypatch, lambda: len(games) > 3, level_name="CartPole-v1", step_limit=3)
    assert not said and games[:3] == [5, 5, 5]  # the fourth step shows that three are over


def test_a_level_without_pictures_cannot_be_watched_and_says_so(monkeypatch):
    assert watched(monkeypatch, lambda: False, level_name=level(Steps)) == (
        f"warning: --watch: {level(Steps)} cannot be drawn: it has no render mode rgb_array. "
        "Training continues."
    )


def test_an_opponent_also_plays_in_games_that_are_watched(monkeypatch):
    drawn, draw = [], RandomActions.draw

    def counted(*given: Any, **more: Any) -> np.ndarray:
        drawn.append(given)
        return draw(*given, **more)

    monkeypatch.setattr(RandomActions, "draw", counted)
    game = "pettingzoo:tests.environments.bodies.game"
    said = watched(
        monkeypatch, lambda: len(drawn) > 3, level_name=game, opponent="random", envs_per_actor=4
    )
    assert not said and len(drawn) > 3


def test_watching_a_training_without_a_screen_is_refused_before_it_starts(tmp_path, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with pytest.raises(UserError, match="--watch needs a screen"):
        alongside.check(Settings(watch=True))


@pytest.mark.parametrize("looks", [{"evaluate_every_s": 1.0}, {"watch": True}])
def test_an_opponent_that_is_not_there_is_refused_before_a_training_starts(
    looks, tmp_path, monkeypatch
):
    monkeypatch.setenv("DISPLAY", ":1")
    with pytest.raises(UserError, match="--opponent=rendom: there is no such folder or file"):
        alongside.check(Settings(opponent="rendom", **looks))
    with pytest.raises(UserError, match="no checkpoint"):
        alongside.check(Settings(opponent=str(tmp_path), **looks))
    alongside.check(Settings(opponent="random", logdir=str(tmp_path), **looks))
    nobody: Any = None
    with pytest.raises(UserError, match="--opponent=rendom"):
        alongside.start(Settings(opponent="rendom", job_name="learner", **looks), nobody, print)


@pytest.mark.parametrize("looks", [{"evaluate_every_s": 1.0}, {"watch": True}])
def test_games_beside_a_training_are_refused_on_the_desktops_of_its_actors(looks):
    chosen = Settings(level_name="vnc:Catch-v0", remotes="h:1+2", **looks)
    with pytest.raises(UserError, match="--remotes: games for --evaluate_every_s or --watch"):
        alongside.check(chosen)


def test_masks_are_learned_with(tmp_path):
    outcome = run(tmp_path, level_name=f"{MASKS}:Turns", action_masks=True)
    # Any action that is not allowed would end the episode.
    assert outcome.figures["mean_episode_return"] == 30.0


def test_observations_are_normalised_while_it_trains(tmp_path):
    run(tmp_path, level_name=level(Tens), normalise_observations=True)
    weights = newest(tmp_path).weights
    (mean,) = [value for name, value in weights.items() if "normaliser/mean" in name]
    assert mean[0] == pytest.approx(0.5, abs=0.1)  # of 0, 1/3, 2/3 and 1
    with pytest.raises(UserError, match="trained with --normalise_observations=True"):
        run(
            tmp_path,
            level_name=level(Tens),
            normalise_observations=False,
            total_environment_frames=20_000,
        )


def test_beside_a_gpu_actors_compute_on_the_processor_and_batches_are_made_ahead(
    tmp_path, monkeypatch
):
    made, devices = [], []
    ahead, load = local_actors.on_device, ActingAgent.load

    def note(batch: Any) -> Any:
        made.append(threading.current_thread().name)
        return ahead(batch)

    def note_device(acting: ActingAgent, weights: Any, version: int) -> None:
        devices.append(acting._device)
        load(acting, weights, version)

    for module in local_actors, networks:
        monkeypatch.setattr(module, "visible_gpus", lambda: ["a GPU"])
    monkeypatch.setattr(local_actors, "on_device", note)
    monkeypatch.setattr(ActingAgent, "load", note_device)
    outcome = run(tmp_path)
    assert outcome.reason == "all frames are played" and outcome.figures["policy_lag"] < 10
    assert set(made) == {"batches"} and set(devices) == {"/device:CPU:0"}
    with pytest.raises(ActorFailed, match="the simulator fell over"):
        run(tmp_path / "broken", level_name=level(Breaks))


class Unsuited(VectorAgent):
    """An agent with an operation that XLA cannot compile."""

    def prepare(self, observation: tf.Tensor) -> tf.Tensor:
        same = tf.numpy_function(lambda array: array, [observation], tf.float32, stateful=False)
        same.set_shape(observation.shape)
        return super().prepare(same)


def test_updates_run_without_xla_where_it_cannot_compile_them(monkeypatch, capsys):
    name = "tests.trainer.programs.test_wishes:Unsuited"
    made = parts(small(level(Steps), agent_name=name))
    batch = block(made.settings)
    made.learner.compiler.with_xla = True
    assert not made.learner.update(batch, run_left=1.0).skipped
    assert "warning: XLA cannot compile updates" in capsys.readouterr().out
    assert not made.learner.update(batch, run_left=1.0).skipped
    assert "XLA" not in capsys.readouterr().out
    forced = parts(small(level(Steps), agent_name=name, xla="on"))
    with pytest.raises(tf.errors.OpError):
        forced.learner.update(batch, run_left=1.0)


def test_xla_is_used_if_asked_for():
    plain, compiled = (parts(small(level(Pictures), width=36, height=36, xla=xla))
                       for xla in ("off", "on"))  # fmt: skip
    batch = block(plain.settings)
    one, other = (made.learner.update(batch, run_left=1.0) for made in (plain, compiled))
    for name, value in one.figures.items():
        assert other.figures[name] == pytest.approx(value, rel=1e-3, abs=1e-3)


def test_an_environments_process_that_is_killed_ends_a_run_in_one_line(tmp_path):
    process = launching.start(
        "--env_processes=1", "--num_actors=1", f"--logdir={tmp_path}",
        "--total_environment_frames=10000000",
    )  # fmt: skip
    launching.wait_for((tmp_path / "metrics.jsonl").exists, process)
    (worker,) = psutil.Process(process.pid).children()
    worker.kill()
    ended = launching.ended(process)
    assert ended.returncode == 1 and "Traceback" not in ended.stdout + ended.stderr
    assert "ended by SIGKILL" in ended.stderr.splitlines()[-1]
    assert "frames-" in "".join(os.listdir(tmp_path / "checkpoints"))


@pytest.mark.parametrize(
    ("job", "levels", "asked"),
    [("learner", 2, True), ("local", 2, False), ("learner", 1, False)],
)
def test_whether_actors_play_all_levels_is_asked_only_where_that_may_be_why_none_ended(
    job, levels, asked
):
    said: list[str] = []
    played = ",".join([level(Steps), level(Tens)][:levels])
    training: Any = Namespace(
        _warned=False,
        _settings=Settings(level_name=played, job_name=job),
        reporter=Namespace(say=said.append),
    )
    meter: Any = Namespace(unplayed=lambda: ["never"])
    for _ in range(2):
        Run._warn_of_unplayed(training, meter)
    [told] = said
    assert told.startswith("warning: no episode of never has ended yet. ")
    assert ("--task" in told) == asked
