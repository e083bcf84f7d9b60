"""Every algorithm trains, resumes and plays; in one process and with actors in others."""

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import environments
from algorithms import registry
from benchmarks.tools.ports import free_port
from tests.trainer.cluster import alone, experiment, mpirun
from tests.trainer.launching import newest
from tests.trainer.levels import Continuous, Pictures, Steps, level
from trainer import build
from trainer.programs import local
from trainer.programs.local import train
from trainer.programs.outcome import Outcome
from trainer.settings.config import Settings
from trainer.storage.records import read_metrics
from trainer.trained.evaluation import evaluate
from trainer.trained.export import export
from user_error import UserError

IN_STEP = ("a2c", "ppo", "reinforce")
OF_VALUES = ("dqn", "double_dqn")
SMALL: dict[str, dict[str, Any]] = {
    "impala": {},
    "ppo": {"unroll_length": 16, "epochs": 2},
    "a2c": {},
    "a3c": {"num_actors": 2},
    "reinforce": {"unroll_length": 10},
    "dqn": {"replay_warm_up": 200, "replay_steps": 2000},
    "double_dqn": {"replay_warm_up": 200, "replay_steps": 2000, "dueling": True, "n_steps": 3},
}


def with_extras(*more: str) -> list[Any]:
    """All algorithms; ``more`` are left to --extras, as others are fed in the same way."""
    return [pytest.param(one, marks=[pytest.mark.extras] * (one in more)) for one in SMALL]


def chosen(algorithm: str, folder: Path, **changes: Any) -> Settings:
    small: dict[str, Any] = {
        "algorithm": algorithm,
        "level_name": level(Steps),
        "logdir": str(folder),
        "total_environment_frames": 800,
        "batch_size": 4,
        "precision": "float32",
        "env_threads": 1,
    }
    return Settings(**small | SMALL[algorithm] | changes)


def run(algorithm: str, folder: Path, monkeypatch: Any, **changes: Any) -> Outcome:
    monkeypatch.setattr(local.cores, "divide", lambda **_: 1)
    return train(chosen(algorithm, folder, **changes))


def test_all_of_them_are_tried():
    programs = {name for name in registry.KNOWN if registry.settings_of(name).program}
    assert set(SMALL) == set(registry.KNOWN) - programs


@pytest.mark.parametrize("algorithm", with_extras("dqn"))  # as Double DQN
def test_it_trains_resumes_and_plays(algorithm, tmp_path, monkeypatch):
    outcome = run(algorithm, tmp_path, monkeypatch)
    assert outcome.figures["mean_episode_return"] == 7.0
    if algorithm in IN_STEP:
        assert all(row["policy_lag"] == 0 for row in read_metrics(tmp_path))
    assert outcome.figures["skipped_updates"] == 0
    again = run(algorithm, tmp_path, monkeypatch, total_environment_frames=1300)
    assert 1300 <= again.figures["environment_frames"] < 2300
    assert newest(tmp_path).counters["updates"] > outcome.figures["updates"]
    played = evaluate(Settings(mode="test", logdir=str(tmp_path), test_num_episodes=3))
    assert played["levels"][level(Steps)]["mean"] == 7.0


@pytest.mark.parametrize(
    "algorithm",
    [
        "ppo",
        # A2C is in step, as PPO is, and the gradients of A3C are those of A2C.
        pytest.param("a2c", marks=pytest.mark.extras),
        pytest.param("a3c", marks=pytest.mark.extras),
        "reinforce",
        "double_dqn",
    ],
)
def test_agents_with_an_lstm_learn_by_it_too(algorithm, tmp_path, monkeypatch):
    changes: dict[str, Any] = {"agent_name": "VectorLSTMAgent", "total_environment_frames": 800}
    if algorithm in OF_VALUES:
        changes |= {"burn_in": 2, "unroll_length": 6}
    outcome = run(algorithm, tmp_path, monkeypatch, **changes)
    assert outcome.figures["skipped_updates"] == 0 and outcome.figures["updates"] > 5


@pytest.mark.parametrize("algorithm", ["ppo", "dqn"])
def test_pictures_are_learned_from_with_stacked_frames(algorithm, tmp_path, monkeypatch):
    outcome = run(
        algorithm, tmp_path, monkeypatch, level_name=level(Pictures), width=36, height=36,
        frame_stack=3, total_environment_frames=500,
    )  # fmt: skip
    assert outcome.figures["skipped_updates"] == 0 and outcome.figures["updates"] > 5


@pytest.mark.parametrize("algorithm", with_extras("a2c", "reinforce"))  # in step, as PPO is
def test_continuous_actions_are_learned_or_refused_in_a_line(algorithm, tmp_path, monkeypatch):
    if algorithm in OF_VALUES:
        with pytest.raises(UserError, match="needs actions that can be counted"):
            run(algorithm, tmp_path, monkeypatch, level_name=level(Continuous))
        assert not list(tmp_path.glob("*.json*"))
    else:
        outcome = run(
            algorithm, tmp_path, monkeypatch, level_name=level(Continuous),
            total_environment_frames=500,
        )  # fmt: skip
        assert outcome.figures["skipped_updates"] == 0


# Both are exported by the same code; Double DQN has a dueling network here.
@pytest.mark.parametrize("algorithm", [pytest.param("dqn", marks=pytest.mark.extras), "double_dqn"])
def test_agents_that_value_actions_are_recorded_and_exported(algorithm, tmp_path, monkeypatch):
    run(algorithm, tmp_path, monkeypatch, level_name="Catch-v0", total_environment_frames=300)
    video = tmp_path / "game.mp4"
    evaluate(Settings(mode="test", logdir=str(tmp_path), test_num_episodes=1, video=str(video)))
    assert video.stat().st_size > 1000
    export(Settings(mode="export", logdir=str(tmp_path)))
    model = tf.saved_model.load(str(tmp_path / "export"))
    space = environments.spec("Catch-v0").observation_space
    output = model.signatures["act"](
        observation=tf.zeros([2, *space.shape], space.dtype),
        reward=tf.zeros([2]),
        last_action=tf.zeros([2], tf.int32),
        first=tf.ones([2], bool),
        seed=tf.constant([1, 2]),
    )
    values = output["policy"].numpy()
    np.testing.assert_allclose(output["baseline"], values.max(axis=1), rtol=1e-5)
    np.testing.assert_array_equal(output["greedy_action"], values.argmax(axis=1))


class Endless(Steps):
    """Episodes that never end."""

    length = 10**9


def test_whole_episodes_of_a_level_without_end_are_refused_in_a_line(tmp_path, monkeypatch):
    monkeypatch.setattr("trainer.learning.whole_episodes.MOST_STEPS", 2000)
    monkeypatch.setattr("trainer.learning.whole_episodes.LEAST_ROWS", 100)
    with pytest.raises(UserError, match="no whole episode in .* Choose another --algorithm"):
        run("reinforce", tmp_path, monkeypatch, level_name="tests.algorithms.test_all:Endless")


def test_a_replay_for_which_there_is_no_memory_is_refused_with_its_size(tmp_path, monkeypatch):
    with pytest.raises(UserError, match=r"would take [\d.]+ GiB of memory, but [\d.]+ GiB are"):
        run("dqn", tmp_path, monkeypatch, level_name=level(Pictures), replay_steps=10**8)


def test_a_run_that_ends_before_its_replay_has_filled_is_refused(tmp_path, monkeypatch):
    with pytest.raises(UserError, match="frames=200: nothing would be learned, because .* 200 "):
        run("dqn", tmp_path, monkeypatch, total_environment_frames=200)
    assert not (tmp_path / "checkpoints").exists()
    played = chosen("dqn", tmp_path, total_environment_frames=200, replay_played="play")
    build.check_warm_up(played, build.level_spec(played))  # it fills the replay


def test_recent_unrolls_for_which_there_is_no_memory_are_refused_with_their_size(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("trainer.learning.replayed.free_memory", lambda: 2**30)
    many: dict[str, Any] = {"level_name": level(Pictures), "replay_capacity": 10**6}
    refused = r"--replay_capacity=1000000: the replay would take [\d.]+ GiB of memory, but 1.0 GiB"
    with pytest.raises(UserError, match=refused):
        run("impala", tmp_path, monkeypatch, replay_share=0.5, **many)


def test_learners_of_one_host_share_its_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("trainer.learning.replayed.free_memory", lambda: 10**6)
    run("dqn", tmp_path, monkeypatch, total_environment_frames=300)
    monkeypatch.setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "100")
    with pytest.raises(UserError, match="GiB are free for each of 100 replays"):
        run("dqn", tmp_path / "other", monkeypatch)


# test_replayed.py has that a new one is filled first, and test_replay.py what is said.
@pytest.mark.parametrize("kept", [True, pytest.param(False, marks=pytest.mark.extras)])
def test_a_replay_is_kept_if_asked_and_otherwise_refilled(kept, tmp_path, monkeypatch, capsys):
    settings: dict[str, Any] = {"checkpoint_replay": kept, "updates_per_step": 0.5}
    first = run("double_dqn", tmp_path, monkeypatch, total_environment_frames=600, **settings)
    capsys.readouterr()
    again = run("double_dqn", tmp_path, monkeypatch, total_environment_frames=1000, **settings)
    steps = again.figures["environment_frames"] - first.figures["environment_frames"]
    updates = again.figures["updates"] - first.figures["updates"]
    said = "The replay was not kept" in capsys.readouterr().out
    if kept:
        assert not said and updates == pytest.approx(0.5 * steps, abs=10)
    else:
        assert said and updates == pytest.approx(0.5 * (steps - 200), abs=10)


def test_a_kept_replay_of_other_settings_is_refused_and_stays(tmp_path, monkeypatch):
    kept: dict[str, Any] = {"checkpoint_replay": True}
    run("dqn", tmp_path, monkeypatch, total_environment_frames=300, **kept)
    index = tmp_path / "replay" / "index.npz"
    before = index.read_bytes()
    changed = kept | {"replay_steps": 3000, "total_environment_frames": 2500}
    with pytest.raises(UserError, match="of another size.* or move it away"):
        run("dqn", tmp_path, monkeypatch, **changed)
    assert index.read_bytes() == before


def test_a_replay_that_was_kept_before_the_first_update_is_used(tmp_path, monkeypatch, capsys):
    warming: dict[str, Any] = {"checkpoint_replay": True, "replay_warm_up": 1000}
    warming["total_environment_frames"] = 1500
    first = run("dqn", tmp_path, monkeypatch, stop_after_s=0.01, **warming)
    assert first.figures["updates"] == 0
    again = run("dqn", tmp_path, monkeypatch, **warming)
    assert again.figures["updates"] > 0
    assert "The replay was not kept" not in capsys.readouterr().out


def test_more_minibatches_than_pieces_of_a_rollout_are_refused(tmp_path):
    from trainer.settings.checks import check

    with pytest.raises(UserError, match="--minibatches=99: a rollout has 64 pieces only"):
        check(chosen("ppo", tmp_path, minibatches=99))


CLUSTER = pytest.mark.xdist_group("trainer cluster")


@CLUSTER
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("algorithm", "transport"),
    [
        ("ppo", "tensorflow"),
        ("dqn", "secure"),
        pytest.param("reinforce", "secure", marks=pytest.mark.extras),  # in step, as PPO is
    ],
)
def test_it_learns_from_actors_that_come_and_go(algorithm, transport, tmp_path):
    common = [
        f"--algorithm={algorithm}",
        "--level_name=CartPole-v1",
        f"--learner_host=localhost:{free_port()}",
        f"--transport={transport}",
        f"--logdir={tmp_path}",
        "--total_environment_frames=20000",
        "--peer_timeout_s=3",
        "--report_every_s=0.5",
        "--batch_size=8",
        "--envs_per_actor=4",
        *(["--replay_warm_up=500", "--updates_per_step=0.05"] if algorithm == "dqn" else []),
        *(["--unroll_length=20"] if algorithm != "dqn" else []),
        *(["--epochs=2", "--minibatches=2"] if algorithm == "ppo" else []),
    ]
    with alone(*experiment("--job_name=learner", *common)[1:]) as learner:
        learner.wait_for("waiting for")
        actor = experiment("--job_name=actor", *common)[1:]
        with alone(*actor) as first, alone(*actor, "--task=1") as second:
            second.wait_for("Connected")
            learner.wait_for("frames/s")
            second.send(signal.SIGKILL)  # the other one plays on
            assert learner.wait(200) == 0, learner.output()
            assert first.wait(30) == 0, first.output()
    last = read_metrics(tmp_path)[-1]
    assert last["environment_frames"] >= 20_000
    assert algorithm == "dqn" or last["policy_lag"] == 0


@CLUSTER
@pytest.mark.timeout(300)
def test_two_learners_in_step_stay_equal(tmp_path):
    ports = [free_port(), free_port()]
    common = [
        "--algorithm=ppo",
        "--level_name=CartPole-v1",
        f"--logdir={tmp_path}",
        "--total_environment_frames=4000",
        "--epochs=2",
        "--minibatches=2",
        "--unroll_length=32",
        "--batch_size=4",
        "--envs_per_actor=4",
        "--report_every_s=0.5",
    ]
    of = [[*common, f"--learner_host=localhost:{port}"] for port in ports]
    with mpirun([experiment("--job_name=learner", *flags) for flags in of]) as learners:
        actors = [experiment("--job_name=actor", f"--task={i}", *flags)[1:]
                  for i, flags in enumerate(of)]  # fmt: skip
        with alone(*actors[0]), alone(*actors[1]):
            assert learners.wait(250) == 0, learners.output()
        assert "differ" not in learners.output()
    rows = read_metrics(tmp_path)
    assert rows[-1]["environment_frames"] >= 4_000 and np.isfinite(rows[-1]["total_loss"])
    assert all(row["policy_lag"] == 0 for row in rows)
