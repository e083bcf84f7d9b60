"""``--algorithm=simple`` as users run it: from nothing to a policy, killed, resumed, refused."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import experiment
from tests.world_models.catch_model import SMALL
from trainer.storage.checkpoints import Store
from trainer.storage.records import read_metrics
from world_models import evaluate, schedule
from world_models.settings import SimpleSettings
from world_models.training import experience, opened

ROOT = Path(__file__).parents[2]


def flags(folder: Path, **changes) -> list[str]:
    given = SMALL | {"logdir": str(folder), "report_every_s": 0.5} | changes
    return [f"--{name}={value}" for name, value in given.items()]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A finished run of each phase, with the stochastic model."""
    folder = tmp_path_factory.mktemp("simple") / "run"
    assert experiment.main(flags(folder, world_model="stochastic_discrete")) == 0
    return folder


def test_a_run_leaves_play_a_model_and_a_policy(run):
    parts = experience.read_all(run / "play", "Catch-v0")
    assert sum(one.part.steps for one in parts) >= 240
    assert [one.about["by"] for one in parts] == ["chance", "the policy"]
    assert opened.opened(str(run)).model.updates == 4
    newest = Store(run / "policy/checkpoints", 1).newest(print)
    assert newest and newest[1].counters["environment_frames"] >= 120
    rows = read_metrics(run)
    assert [row["epoch"] for row in rows] == [0, 1]
    assert -1 <= rows[1]["mean_episode_return"] <= 1
    assert 0 <= rows[1]["model/reward_accuracy/at_12"] <= 1
    assert [*(run / "world_model").glob("beside-*.png")]
    assert [*(run / "world_model").glob("beside-*.mp4")]


def test_the_same_command_finds_nothing_left_to_do(run, capsys):
    before = {path: path.stat().st_mtime_ns for path in run.glob("*/*.npz")}
    assert experiment.main(flags(run, world_model="stochastic_discrete")) == 0
    assert "nothing is left to compute" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in run.glob("*/*.npz")} == before


def test_its_policy_plays_the_real_game(run, capsys):
    assert experiment.main(["--mode=test", f"--logdir={run}", "--test_num_episodes=2"]) == 0
    assert "Catch-v0" in capsys.readouterr().out


def test_games_that_go_on_are_counted_and_named(run):
    collected = read_metrics(run)
    for row, part in zip(collected, experience.read_all(run / "play", "Catch-v0"), strict=True):
        cut = part.about["unfinished_lengths"]
        assert row["unfinished_episodes"] == len(cut) and all(0 < n < 9 for n in cut)
    # No step is lost: those of games that were going on before are counted with their ends.
    steps = sum(one.part.steps for one in experience.read_all(run / "play", "Catch-v0"))
    parts = experience.read_all(run / "play", "Catch-v0")
    assert steps == sum(parts[0].about["lengths"] + parts[1].about["lengths"] + cut)


def test_its_model_is_evaluated_on_new_play(run, capsys):
    assert evaluate.main([f"--logdir={run}", "--real_steps=100", "--rollouts=8"]) == 0
    found = json.loads((run / "world_model/evaluation.json").read_text())
    assert found["played_by"] == "policy" and found["rollouts"] == 8
    assert "from_start/reward_accuracy/to_end" in capsys.readouterr().out
    assert (run / "world_model/evaluation.mp4").stat().st_size > 500


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"level_name": "PongNoFrameskip-v4"}, "is play of Catch-v0"),
        ({"world_model": "deterministic"}, "is of another game or size"),
        ({"model_filters": 8}, "it has filters 4, and this command asks for filters 8"),
        (
            {"base_algorithm": "a2c", "base_settings": ""},
            "--base_algorithm=a2c does not fit the policy",
        ),
        ({"channels": "4,4,8"}, "--channels=4,4,8 does not fit"),
    ],
)
def test_what_does_not_fit_a_run_is_refused_and_changes_nothing(run, changes, message, capsys):
    before = {path: path.read_bytes() for path in run.rglob("*.*") if path.is_file()}
    given = {"world_model": "stochastic_discrete"} | changes
    assert experiment.main(flags(run, **given)) == 2
    error = capsys.readouterr().err
    assert message in error and len(error.strip().splitlines()) == 1
    assert before == {path: path.read_bytes() for path in run.rglob("*.*") if path.is_file()}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"level_name": "CartPole-v1", "agent_name": ""}, "needs pictures of bytes"),
        ({"level_name": "Catch-v0,Pong-v4", "num_actors": 2}, "a world model is of one level"),
        ({"job_name": "actor"}, "is one process on one machine"),
        ({"mode": "test"}, "Leave it and its preset out"),
        ({"base_algorithm": "simple"}, "trains no policy by itself"),
        ({"base_settings": "epoch=3"}, "Did you mean epochs"),
        ({"base_settings": "epochs=0"}, "must be 1 or more"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(tmp_path, changes, message, capsys):
    assert experiment.main(flags(tmp_path / "run", **changes)) == 2
    error = capsys.readouterr().err
    assert message in error and len(error.strip().splitlines()) == 1
    assert not (tmp_path / "run/play").exists()


@pytest.mark.parametrize(
    ("base", "settings"),
    [("impala", ""), ("a2c", ""), ("dqn", "replay_steps=2000,replay_warm_up=20")],
)
def test_any_algorithm_learns_in_the_model_from_stacks_of_pictures(tmp_path, base, settings):
    given = {"base_algorithm": base, "base_settings": settings, "frame_stack": 3}
    assert experiment.main(flags(tmp_path, **given)) == 0
    reported = read_metrics(tmp_path / "policy")
    losses = [value for row in reported for name, value in row.items() if "loss" in name]
    assert losses and all(value is not None for value in losses)  # none is nan
    assert reported[-1]["environment_frames"] >= 120


def test_each_phase_runs_alone(tmp_path):
    for phase in ("collect", "model", "policy", "collect"):
        assert experiment.main(flags(tmp_path, phase=phase)) == 0
    assert opened.opened(str(tmp_path)).model.updates == 4
    assert read_metrics(tmp_path / "policy")[-1]["environment_frames"] >= 120


def test_a_phase_alone_needs_what_comes_before_it(tmp_path, capsys):
    assert experiment.main(flags(tmp_path / "run", phase="policy")) == 2
    assert "run --phase=collect and --phase=model first" in capsys.readouterr().err


def killed_when(folder: Path, sign: str, **changes) -> None:
    """Starts a run and ends it with KILL once its log has this line."""
    log = folder / "train.log"
    process = subprocess.Popen(
        [sys.executable, "experiment.py", *flags(folder, **changes)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    until = time.monotonic() + 200
    while not (log.exists() and sign in log.read_text()):
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()


@pytest.mark.extras
@pytest.mark.parametrize("sign", ["collect 0:", "model 0:", "policy 0:", "collect 1:"])
def test_a_run_killed_in_any_phase_goes_on_where_it_was(tmp_path, sign):
    longer = {"model_updates": 60, "real_steps": 240, "checkpoint_every_s": 0.2}
    killed_when(tmp_path / "run", sign, **longer)
    kept = {path: path.read_bytes() for path in (tmp_path / "run/play").glob("part-*.npz")}
    assert experiment.main(flags(tmp_path / "run", **longer)) == 0
    assert all(path.read_bytes() == content for path, content in kept.items())
    totals = schedule.totals(SimpleSettings(model_epochs=1, real_steps=240))
    parts = experience.read_all(tmp_path / "run/play", "Catch-v0")
    assert totals["collect"] <= sum(one.part.steps for one in parts) < totals["collect"] + 100
    assert opened.opened(str(tmp_path / "run")).model.updates == 60
