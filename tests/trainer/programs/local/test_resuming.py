"""Trainings in this process that go on from what is in their folder, or refuse to."""

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import experiment
from environments import EnvironmentStep, VectorEnvironment
from tests.trainer.launching import contents, newest
from tests.trainer.levels import Pictures, Steps, Tens, TwoChoices, level
from tests.trainer.programs.local.conftest import RETURNS, flags, refusal, settings
from trainer import build
from trainer.programs.local import train
from trainer.programs.stopping import StopSignal
from trainer.settings.config import Settings
from trainer.storage.checkpoints import Store
from trainer.storage.records import METRICS, read_metrics
from user_error import UserError

pytestmark = pytest.mark.xdist_group("resuming")  # they share runs to go on from


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., None]:
    """Makes a folder one of a run of 400 frames with these flags; each kind is trained once."""
    trained: dict[tuple[str, ...], Path] = {}

    def make(folder: Path, *own: str) -> None:
        if own not in trained:
            first = tmp_path_factory.mktemp("begun") / "run"
            if own:
                assert experiment.main(flags(first, *own)) == 0
            else:
                train(settings(first))
            trained[own] = first
        shutil.copytree(trained[own], folder, dirs_exist_ok=True)

    return make


def test_a_finished_run_continues_if_more_frames_are_given(tmp_path, begun):
    begun(tmp_path)
    first = newest(tmp_path).counters
    train(settings(tmp_path, total_environment_frames=800))
    second = newest(tmp_path).counters
    assert second["environment_frames"] >= 800 and first["environment_frames"] < 420
    assert second["updates"] > 1.5 * first["updates"]
    assert second["episodes"] > first["episodes"]


def test_a_damaged_newest_checkpoint_is_reported_and_the_previous_one_used(tmp_path, capsys, begun):
    begun(tmp_path)
    train(settings(tmp_path, total_environment_frames=800))
    (tmp_path / "checkpoints" / "best.npz").unlink(missing_ok=True)
    earlier, damaged = sorted((tmp_path / "checkpoints").glob("frames-*"))
    frames = int(earlier.stem.removeprefix("frames-"))
    damaged.write_bytes(damaged.read_bytes()[:-100])
    leftover = tmp_path / "checkpoints" / f".frames-{900:015d}.npz.77.tmp"
    leftover.touch()
    capsys.readouterr()
    train(settings(tmp_path, total_environment_frames=1200))
    printed = capsys.readouterr().out
    assert f"warning: {damaged} is damaged" in printed
    assert f"at {frames} frames" in printed
    assert newest(tmp_path).counters["environment_frames"] >= 1200
    assert not leftover.exists()


def test_a_run_that_was_killed_before_its_last_report_writes_it_with_the_next_start(
    tmp_path, begun
):
    begun(tmp_path)
    metrics, names = tmp_path / METRICS, ("environment_frames", "updates", "mean_episode_return")
    last, lines = read_metrics(tmp_path)[-1], metrics.read_bytes().splitlines(keepends=True)
    metrics.write_bytes(b"".join(lines[:-1]))
    curve = tmp_path / "learning_curve.png"
    curve.unlink()
    assert train(settings(tmp_path)).reason == "already trained"
    again = read_metrics(tmp_path)[-1]
    assert {name: again[name] for name in names} == {name: last[name] for name in names}
    written, drawn = metrics.read_bytes(), curve.stat().st_mtime_ns
    train(settings(tmp_path))
    assert metrics.read_bytes() == written and curve.stat().st_mtime_ns == drawn


def best_return(store):
    best = store.best(print)
    return best and best.counters["best_return"]


def test_the_best_checkpoint_is_kept_if_the_resumed_one_does_not_record_it(tmp_path, begun):
    begun(tmp_path)
    kept, store = newest(tmp_path), Store(tmp_path / "checkpoints", 3)
    kept.counters["best_return"] = 100.0
    store.save_best(kept)
    kept.counters["best_return"] = None
    store.save(kept)
    train(settings(tmp_path, total_environment_frames=800))
    assert best_return(store) == 100.0


@pytest.mark.parametrize("how", ["missing", "damaged"])
def test_a_best_checkpoint_that_cannot_be_read_is_replaced(tmp_path, capsys, begun, how):
    begun(tmp_path)
    best, store = tmp_path / "checkpoints" / "best.npz", Store(tmp_path / "checkpoints", 3)
    assert best_return(store) == RETURNS[level(Steps)]
    best.unlink()
    if how == "damaged":
        best.write_bytes(b"PK")
    train(settings(tmp_path, total_environment_frames=800))
    assert best_return(store) == RETURNS[level(Steps)]
    assert (f"warning: {best} is damaged" in capsys.readouterr().out) == (how == "damaged")


def test_what_was_played_before_the_first_update_is_not_played_again_beside_it(tmp_path):
    first_rows: list[list[float]] = []

    for _ in range(3):
        stop = StopSignal()

        def make(
            chosen: Settings, actor: int, start: int, stop: StopSignal = stop
        ) -> VectorEnvironment:
            environment = build.actor_environment(chosen, actor, start)
            reset, step, steps = environment.reset, environment.step, itertools.count()

            def begun() -> EnvironmentStep:
                row = reset()
                first_rows.append(row.observation.ravel().tolist())
                return row

            def stepped(actions: np.ndarray) -> EnvironmentStep:
                if next(steps) == 100:  # far more than may wait to be taken
                    stop.request("the test")
                return step(actions)

            environment.reset = begun  # type: ignore[method-assign]
            environment.step = stepped  # type: ignore[method-assign]
            return environment

        kept = {"checkpoint_replay": True, "replay_steps": 60_000, "replay_warm_up": 60_000}
        chosen = settings(tmp_path, algorithm="dqn", level_name="CartPole-v1", **kept)
        outcome = train(chosen.replace(total_environment_frames=10**6), stop, make_environment=make)
        assert outcome.reason == "the test" and newest(tmp_path).counters["updates"] == 0
    assert len({tuple(one) for one in first_rows}) == 3


SIZE = ["--width=40", "--height=40"]
OF_DQN = ["--algorithm=dqn", "--replay_warm_up=40"]


@pytest.mark.parametrize(
    ("before", "now", "message"),
    [
        ([], ["--agent_name=VectorLSTMAgent"], "--agent_name=VectorLSTMAgent does not fit"),
        ([], ["--optimizer=rmsprop"], "trained with --optimizer=adam."),
        ([], ["--nopopart"], "trained with --popart=True."),
        (
            [],
            [f"--level_name={level(TwoChoices)}"],
            "TwoChoices (actions MultiDiscrete([2 3]) instead of Discrete(2)) does not fit",
        ),
        (
            [],
            [f"--level_name={level(Steps)},{level(Tens)}"],
            f"--level_name={level(Steps)},{level(Tens)} (weights of other shapes)",
        ),
        (
            [f"--level_name={level(Pictures)}", *SIZE],
            [f"--level_name={level(Pictures)}", "--width=44", "--height=40"],
            "trained with --width=40.",
        ),
        (
            [f"--level_name={level(Pictures)}", *SIZE, "--nobackdrop"],
            [f"--level_name={level(Pictures)}", *SIZE],
            "trained with --backdrop=False.",
        ),
        (OF_DQN, [*OF_DQN, "--burn_in=3"], "--burn_in=3: the agent has no"),
        (
            OF_DQN,
            [*OF_DQN, "--unroll_length=64", "--replay_steps=100"],
            "--replay_steps=100: expected",
        ),
    ],
    ids=["agent", "optimizer", "popart", "actions", "levels", "size", "backdrop", "rows", "room"],
)
def test_a_resume_that_does_not_fit_is_refused_and_changes_nothing(
    tmp_path, capsys, begun, before, now, message
):
    begun(tmp_path, *(before or [f"--level_name={level(Steps)}"]))
    kept = contents(tmp_path)
    assert message in refusal(capsys, *flags(tmp_path, "--total_environment_frames=900", *now))
    assert contents(tmp_path) == kept


def test_a_resume_for_which_there_is_no_memory_records_no_other_settings(
    tmp_path, monkeypatch, begun
):
    begun(tmp_path)
    recorded = (tmp_path / "settings.json").read_bytes()
    monkeypatch.setattr("trainer.learning.replayed.free_memory", lambda: 10**6)
    more = {"total_environment_frames": 900, "replay_share": 0.5, "replay_capacity": 10**6}
    with pytest.raises(UserError, match="--replay_capacity=1000000: the replay would take"):
        train(settings(tmp_path, **more))
    assert (tmp_path / "settings.json").read_bytes() == recorded
