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
from tests.trainer.disks import files_limited_to
from tests.trainer.untrained import make_run
from tests.world_models.catch_model import SMALL, flags, small
from trainer.machine.launching import typed
from trainer.settings import config
from trainer.storage.checkpoints import Store
from trainer.storage.played import read_all
from trainer.storage.records import read_metrics
from user_error import NotWritten
from world_models import schedule
from world_models.settings import SimpleSettings
from world_models.trained.opened import opened, settings_of
from world_models.training import loop, playing
from world_models.training.reports import COUNTED, KEPT, Reports
from world_models.training.world_model import WorldModel

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.xdist_group("simple")  # share the finished run


def model_of(folder: Path) -> WorldModel:
    return opened(settings_of(str(folder))).model


def test_a_run_leaves_play_a_model_and_a_policy(run):
    parts = read_all(run / "play", "Catch-v0")
    assert sum(one.part.steps for one in parts) >= 240
    assert [one.about["by"] for one in parts] == ["chance", "the policy"]
    assert model_of(run).updates == 4
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
    for row, part in zip(collected, read_all(run / "play", "Catch-v0"), strict=True):
        cut = part.about["unfinished_lengths"]
        assert row["unfinished_episodes"] == len(cut) and all(0 < n < 9 for n in cut)
    # No step is lost: those of games that were going on before are counted with their ends.
    steps = sum(one.part.steps for one in read_all(run / "play", "Catch-v0"))
    parts = read_all(run / "play", "Catch-v0")
    assert steps == sum(parts[0].about["lengths"] + parts[1].about["lengths"] + cut)


class Killed(BaseException):
    """Ends a run as a kill does: nothing more is written."""


def killed_at_call(monkeypatch, what: str, number: int, words: list[str]) -> None:
    """Runs a command that is killed at this call of a function of the loop."""
    calls = 0
    function = getattr(Reports, what, None) or getattr(loop, what)

    def called(*given):
        nonlocal calls
        calls += 1
        if calls == number:
            raise Killed
        return function(*given)

    with monkeypatch.context() as patched:
        patched.setattr(Reports if hasattr(Reports, what) else loop, what, called)
        with pytest.raises(Killed):
            experiment.main(words)


def test_a_collection_that_was_killed_is_reported_with_all_that_was_played(tmp_path, monkeypatch):
    monkeypatch.setattr(playing, "LONGEST_PART", 7)
    words = flags(tmp_path, phase="collect")
    killed_at_call(monkeypatch, "store", 3, words)
    assert not read_metrics(tmp_path)
    killed_at_call(monkeypatch, "of_play", 1, words)
    first = len(read_all(tmp_path / "play", "Catch-v0"))
    assert experiment.main(words) == 0
    parts = read_all(tmp_path / "play", "Catch-v0")
    [row] = read_metrics(tmp_path)
    assert len(parts) == first > 3  # nothing was left to play
    ended = [length for one in parts for length in one.about["lengths"]]
    # Two parts were there when it was killed, and their games never ended.
    cut = parts[1].about["unfinished_lengths"] + parts[-1].about["unfinished_lengths"]
    assert sum(one.part.steps for one in parts) == sum(ended) + sum(cut) == row["real_steps"]
    assert row["episodes"] == len(ended) and row["unfinished_episodes"] == len(cut)
    # What has been reported is not reported again.
    assert experiment.main(flags(tmp_path, phase="collect", real_steps=240)) == 0
    parts = read_all(tmp_path / "play", "Catch-v0")
    rows = read_metrics(tmp_path)
    assert sum(one["episodes"] for one in rows) == sum(len(one.about["lengths"]) for one in parts)
    assert len(rows) == 2 and rows[0] == row
    # Rows of earlier versions do not say what they count; a part may have gone since.
    metrics = tmp_path / "metrics.jsonl"
    metrics.write_text("".join(json.dumps(one | {COUNTED: None}) + "\n" for one in rows).replace(
        f', "{COUNTED}": null', ""))  # fmt: skip
    assert experiment.main(flags(tmp_path, phase="collect", real_steps=360)) == 0
    before = read_metrics(tmp_path)
    assert len(before) == 3
    max((tmp_path / "play").glob("*.npz")).unlink()
    assert experiment.main(flags(tmp_path, phase="collect", real_steps=360)) == 0
    after = read_metrics(tmp_path)  # of rows with as many frames the last one holds
    assert after[:2] == before[:2] and len(after) == 3 and after[2] != before[2]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"level_name": "PongNoFrameskip-v4"}, "is play of Catch-v0"),
        (
            {"num_action_repeats": 2, "crop": "0, 0,9,9"},
            "with --num_action_repeats=1 --crop=, and this command has --num_action_repeats=2 "
            "--crop=0,0,9,9. Give the same",
        ),
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
        ({"job_name": "actor"}, "needs no actors elsewhere"),
        ({"mode": "test"}, "cannot be read"),
        ({"model_bundle": "zoo:catch"}, "is no world model, but an agent"),
        ({"model_bundle": "nowhere.npz"}, "expected a world model's bundle"),
        ({"subjects": "agent"}, "expected some of agent_real"),
        ({"base_algorithm": "simple"}, "trains no policy by itself"),
        ({"base_settings": "epoch=3"}, "Did you mean epochs"),
        ({"base_settings": "epochs=0"}, "must be 1 or more"),
        ({"model_bundle": "x" * 300}, "cannot be read (File name too long)"),
        ({"stop_at_return": 0.9}, "ends with its phases"),
        ({"stop_at_return": 0}, "--stop_at_return=0: --algorithm=simple ends with its phases"),
        ({"total_environment_frames": 10**6}, "frames=1000000: --algorithm=simple ends with its"),
        ({"stop_after_s": 60}, "ends with its phases"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(tmp_path, changes, message, capsys):
    assert experiment.main(flags(tmp_path / "run", **changes)) == 2
    error = capsys.readouterr().err
    assert message in error and len(error.strip().splitlines()) == 1
    assert not (tmp_path / "run/play").exists()


@pytest.mark.parametrize(
    ("base", "settings"),
    [
        ("dqn", "replay_steps=2000,replay_warm_up=20"),
        ("reinforce", ""),
        pytest.param("impala", "", marks=pytest.mark.extras),
        pytest.param("a2c", "", marks=pytest.mark.extras),
    ],
)
def test_any_algorithm_learns_in_the_model_from_stacks_of_pictures(tmp_path, base, settings):
    given = {"base_algorithm": base, "base_settings": settings, "frame_stack": 3}
    assert experiment.main(flags(tmp_path, **given)) == 0
    reported = read_metrics(tmp_path / "policy")
    losses = [value for row in reported for name, value in row.items() if "loss" in name]
    assert losses and all(value is not None for value in losses)  # none is nan
    assert reported[-1]["environment_frames"] >= 120


def test_each_phase_runs_alone(tmp_path, capsys):
    folder = tmp_path / "a run"
    for phase in ("collect", "model", "policy", "collect"):
        assert experiment.main(flags(folder, phase=phase)) == 0
    assert model_of(folder).updates == 4
    assert read_metrics(folder / "policy")[-1]["environment_frames"] >= 120
    looks = f"{typed(sys.executable)} -m world_models.evaluate --subjects=model"
    assert f"Done. See how right it is: {looks} '--logdir={folder}'\n" in capsys.readouterr().out


def test_play_too_short_to_judge_a_model_by_is_no_mistake(tmp_path):
    little = {"real_steps": 8, "model_frames": 4, "model_updates": 1, "frame_stack": 1}
    assert experiment.main(flags(tmp_path, **little)) == 0
    assert [row["epoch"] for row in read_metrics(tmp_path)] == [0, 1]


@pytest.mark.parametrize(
    ("phase", "message"),
    [
        ("policy", "run --phase=collect and --phase=model first"),
        ("model", "has no real play to learn from; run --phase=collect first"),
    ],
)
def test_a_phase_alone_needs_what_comes_before_it(tmp_path, phase, message, capsys):
    assert experiment.main(flags(tmp_path / "run", phase=phase)) == 2
    said = capsys.readouterr()
    assert message in said.err and "estimate" not in said.out
    assert not (tmp_path / "run/settings.json").exists()


# The game and the agent, which other algorithms have, too.
LOOKS = ("level_name", "agent_name", "channels", "width", "height", "precision", "env_processes")


@pytest.mark.parametrize("recorded", [True, False])
def test_a_run_of_another_algorithm_keeps_its_folder(tmp_path, recorded, capsys):
    looks = {name: SMALL[name] for name in LOOKS} | {"algorithm": "dqn"}
    run = make_run(tmp_path, **looks)
    (tmp_path / "metrics.jsonl").write_text('{"environment_frames": 1000}\n')
    if recorded:
        (tmp_path / "settings.json").write_text(config.to_json(run))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()}
    assert experiment.main(flags(tmp_path)) == 2
    error = capsys.readouterr().err
    assert "--algorithm=simple does not fit the run in" in error and error.count("\n") == 1
    after = {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()}
    assert after.pop(tmp_path / ".lock") and after == before
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"checkpoints"}


@pytest.mark.parametrize("has_links", [True, False])
def test_another_algorithm_does_not_train_in_the_folder_of_a_run(tmp_path, has_links, capsys):
    assert experiment.main(flags(tmp_path, phase="collect")) == 0
    if not has_links:  # as on some file systems
        (tmp_path / "checkpoints").unlink()
    kept = ("settings.json", "metrics.jsonl", "train.log")
    before = [(tmp_path / name).read_bytes() for name in kept]
    capsys.readouterr()
    words = [f"--{name}={SMALL[name]}" for name in LOOKS]
    assert experiment.main([*words, "--algorithm=dqn", f"--logdir={tmp_path}"]) == 2
    error = capsys.readouterr().err
    assert "is the run of a program of trainings" in error and error.count("\n") == 1
    assert [(tmp_path / name).read_bytes() for name in kept] == before
    assert experiment.main(flags(tmp_path, phase="collect")) == 0


def started(folder: Path, **changes) -> subprocess.Popen:
    """A run in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "experiment.py", *flags(folder, **changes)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )


def wait_for(process: subprocess.Popen, log: Path, sign: str) -> None:
    """Waits until the log has this line."""
    until = time.monotonic() + 200
    while not (log.exists() and sign in log.read_text()):
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.02)


def killed_when(folder: Path, sign: str, **changes) -> None:
    """Starts a run and ends it with KILL once its log has this line."""
    process = started(folder, **changes)
    wait_for(process, folder / "train.log", sign)
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
    parts = read_all(tmp_path / "run/play", "Catch-v0")
    assert totals["collect"] <= sum(one.part.steps for one in parts) < totals["collect"] + 100
    assert model_of(tmp_path / "run").updates == 60


def test_model_phases_add_up_and_a_damaged_checkpoint_is_passed_over(tmp_path, capsys):
    assert experiment.main(flags(tmp_path, phase="collect")) == 0
    assert not (tmp_path / KEPT).exists()
    seconds = []
    for updates in (4, 8):
        assert experiment.main(flags(tmp_path, phase="model", model_updates=updates)) == 0
        seconds.append(json.loads((tmp_path / KEPT).read_text())["model_seconds"])
    assert seconds[1] > seconds[0] > 0
    newest, older = Store(tmp_path / "world_model", 2).numbered()
    content = newest.read_bytes()
    newest.write_bytes(content[: len(content) // 2])
    assert experiment.main(flags(tmp_path, phase="model", model_updates=8)) == 0
    said = capsys.readouterr().out
    assert "falling back to the previous checkpoint" in said
    assert f"world_models.evaluate --subjects=model --logdir={tmp_path}" in said
    assert model_of(tmp_path).updates == 8
    # The seconds of all model phases are kept until a row has them.
    seconds.append(json.loads((tmp_path / KEPT).read_text())["model_seconds"])
    assert seconds[2] > seconds[1]
    assert experiment.main(flags(tmp_path, phase="collect", real_steps=240)) == 0
    first, second = read_metrics(tmp_path)
    assert "model_seconds" not in first and second["model_seconds"] == seconds[2]
    assert not (tmp_path / KEPT).exists()
    for path in Store(tmp_path / "world_model", 2).numbered():
        path.write_bytes(b"nothing")
    assert experiment.main(flags(tmp_path, phase="model", model_updates=8)) == 2
    assert "none of the 2 checkpoints" in capsys.readouterr().err


def test_a_full_disk_ends_the_model_in_one_line_and_loses_nothing(tmp_path, capsys):
    assert experiment.main(flags(tmp_path, phase="collect")) == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.npz")}
    capsys.readouterr()
    often = {"checkpoint_every_s": 0.01, "report_every_s": 0.01}
    with files_limited_to(30_000):  # room for figures and none for a checkpoint
        assert experiment.main(flags(tmp_path, phase="model", **often)) == NotWritten.code
    said = capsys.readouterr()
    assert "could not be written" in said.err and len(said.err.strip().splitlines()) == 1
    assert "warning:" in said.out  # on the way, it goes on
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.npz")} == before
    assert experiment.main(flags(tmp_path, phase="model")) == 0
    assert model_of(tmp_path).updates == 4


def test_a_stop_is_obeyed_between_two_rows_of_play(tmp_path):
    settings = small()
    with playing.real_game(settings, 4, 0) as game:
        games = playing.Games(game)
        seen = iter([False, False, True])
        part, _ = games.play(playing.at_random(3, 1), 10**6, lambda: next(seen))
        assert len(part.first) == 3 and part.steps == 8
        assert [one.length for one in games.unfinished()] == [2] * 4


@pytest.mark.extras
def test_ctrl_c_while_it_collects_keeps_what_was_played(tmp_path):
    longer = {"real_steps": 10**6}
    process = started(tmp_path, **longer)
    wait_for(process, tmp_path / "train.log", "collect 0:")
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
    assert "Stopped in collect of epoch 0: SIGINT" in (tmp_path / "train.log").read_text()
    assert sum(one.part.steps for one in read_all(tmp_path / "play", "Catch-v0")) > 0
