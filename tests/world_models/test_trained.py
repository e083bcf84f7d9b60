"""A trained model and its policy: evaluated in three ways, handed on as files, refused."""

import dataclasses
import hashlib
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import experiment
from tests.world_models.catch_model import flags, small, spec_of
from trainer.machine import launching
from trainer.storage import bundles
from trainer.storage.checkpoints import Checkpoint, Store, read
from trainer.storage.records import read_metrics
from user_error import UserError
from world_models import evaluate
from world_models.trained import testing
from world_models.trained.opened import opened, settings_of
from world_models.training import bundles as bundles_of_models
from world_models.training import world_model
from world_models.training.experience import Experience
from world_models.training.world_model import WorldModel

pytestmark = pytest.mark.xdist_group("simple")  # share the finished run
FEW = ["--test_num_episodes=4", "--played_steps=100", "--rollouts=8"]


def tags(folder: Path) -> set[str]:
    events = EventAccumulator(str(folder))
    events.Reload()
    return set(events.Tags()["scalars"])


@pytest.fixture(scope="module")
def evaluated(run) -> Path:
    """The run, with an evaluation of everything."""
    assert evaluate.main([f"--logdir={run}", *FEW]) == 0
    return run


@pytest.fixture(scope="module")
def bundle(evaluated, tmp_path_factory) -> Path:
    """The run's model as a file."""
    folder = tmp_path_factory.mktemp("bundle")
    words = ["--mode=export", "--algorithm=simple", "--export_format=bundle"]
    assert experiment.main([*words, f"--logdir={evaluated}", f"--export_dir={folder}"]) == 0
    return folder / "Catch-v0_model.npz"


def test_policy_and_model_are_evaluated_together(evaluated):
    real, dreamed, model = (
        json.loads((evaluated / f"evaluation{which}.json").read_text())
        for which in ("", "_in_model", "_model")
    )
    for report in (real, dreamed):
        figures = report["levels"]["Catch-v0"]
        assert figures["episodes"] == 4 and len(figures["clipped_returns"]) == 4
    assert real["levels"]["Catch-v0"]["unfinished"] == 0
    # A model that learned nothing may go on for ever; that is cut and said.
    assert dreamed["settings"]["step_limit"] == 1_000
    [cell] = model["cells"]
    assert cell["played_by"] == "sampled" and cell["rollouts"] == 8
    assert 0 <= cell["reward_accuracy/at_12"] <= 1 and cell["rollouts_at_50"] > 0
    assert {"reward_accuracy/at_12", "reward_accuracy/at_50", "drift/at_1"} <= tags(
        evaluated / "evaluation_model"
    )
    assert (evaluated / "evaluation_model.mp4").stat().st_size > 500


def test_a_grid_is_for_all_of_them_and_random_play_is_a_policy(run, tmp_path, capsys):
    run = shutil.copytree(run, tmp_path / "run", symlinks=True)
    grid = "test_policy=random,greedy;noops=0;step_limit=5"
    assert evaluate.main([f"--logdir={run}", *FEW, f"--grid={grid}"]) == 0
    assert "in the model" in capsys.readouterr().out
    found = json.loads((run / "evaluation_grid_in_model.json").read_text())["grid"]
    assert [cell["settings"]["test_policy"] for cell in found] == ["random", "greedy"]
    of_real = json.loads((run / "evaluation_grid.json").read_text())["grid"]
    assert all(cell["unfinished"] == 4 for cell in of_real)  # cut after 5 of 9 steps
    names = tags(run / "evaluation_in_model")
    assert "mean_reward/eval/sampling_temp_0_max_noops_0_step_limit_5_unclipped" in names
    assert "mean_reward/eval/random_max_noops_0_step_limit_5_unclipped" in names
    of_model = json.loads((run / "evaluation_model.json").read_text())["cells"]
    assert [cell["played_by"] for cell in of_model] == ["random", "greedy"]
    shown = tags(run / "evaluation_model")
    assert "reward_accuracy/at_12_sampling_random_max_noops_0_step_limit_5" in shown
    assert "reward_accuracy/at_12_sampling_temp_0_max_noops_0_step_limit_5" in shown


@pytest.fixture
def endless(monkeypatch) -> None:
    """No model says that a game is over."""
    predict = WorldModel.predict

    def predicted(*given):
        seen = predict(*given)
        return seen._replace(end=np.zeros_like(seen.end))

    monkeypatch.setattr(WorldModel, "predict", predicted)


def test_a_dream_that_is_cut_makes_room_for_the_next(endless, run, tmp_path):
    run = shutil.copytree(run, tmp_path / "run", symlinks=True)
    words = ["--subjects=agent_simulated", "--test_num_episodes=20", "--step_limit=3"]
    assert evaluate.main([f"--logdir={run}", *words]) == 0
    found = json.loads((run / "evaluation_in_model.json").read_text())["levels"]["Catch-v0"]
    assert found["episodes"] == 20


def test_a_grid_may_also_name_the_usual_limit_of_dreams(endless, run, tmp_path, monkeypatch):
    monkeypatch.setattr("trainer.settings.trained.LONGEST_ALONGSIDE", 20)
    run = shutil.copytree(run, tmp_path / "run", symlinks=True)
    words = ["--subjects=agent_simulated", "--test_num_episodes=2", "--grid=step_limit=-1,3"]
    assert evaluate.main([f"--logdir={run}", *words]) == 0
    found = json.loads((run / "evaluation_grid_in_model.json").read_text())["grid"]
    assert [cell["lengths"] for cell in found] == [[20, 20], [3, 3]]
    assert [cell["unfinished"] for cell in found] == [2, 2]


def test_a_runs_policy_plays_beside_a_model_that_somebody_made(run, tmp_path):
    run = shutil.copytree(run, tmp_path / "run", symlinks=True)
    assert evaluate.main([f"--logdir={run}", "--model_bundle=zoo:catch_model", *FEW]) == 0
    report = json.loads((run / "evaluation_model.json").read_text())
    assert report["cells"][0]["played_by"] == "sampled"
    assert report["model"].endswith("catch_model.npz")
    assert json.loads((run / "evaluation_in_model.json").read_text())["levels"]


def test_a_card_has_no_figures_of_another_model(evaluated, tmp_path):
    other = shutil.copytree(evaluated, tmp_path / "other", symlinks=True)
    words = ["--mode=export", "--algorithm=simple", "--export_format=bundle"]
    assert experiment.main([*words, f"--logdir={other}"]) == 0
    card = bundles.card(read(other / "bundle" / "Catch-v0_model.npz"))
    assert card is not None and card["updates"] == 4 and card["evaluation"] is None


def test_an_evaluation_that_cannot_be_written_is_shown_all_the_same(bundle, tmp_path, capsys):
    (tmp_path / "file").touch()
    words = [f"--model_bundle={bundle}", "--rollouts=8", "--played_steps=100"]
    assert evaluate.main([*words, f"--logdir={tmp_path / 'file' / 'run'}"]) == 0
    said = capsys.readouterr().out
    assert "reward right" in said and "All figures" not in said
    assert said.count("could not be written (Not a directory)") == 5


@pytest.mark.parametrize(
    ("word", "message"),
    [("--algorithm=ppo", "expected simple"), ("--mode=export", "expected test")],
)
def test_the_command_for_evaluations_does_nothing_else(word, message, capsys):
    assert evaluate.main([word, "--logdir=nowhere"]) == 2
    error = capsys.readouterr().err
    assert f"{word}" in error and message in error and len(error.strip().splitlines()) == 1


def test_a_models_file_says_where_it_comes_from(bundle):
    card = bundles.card(read(bundle))
    assert card is not None and card["levels"] == ["Catch-v0"] and card["updates"] == 4
    assert card["seed"] == 1 and card["trained_with"]["machine"]
    assert card["evaluation"]["played_by"] == "sampled"
    assert 0 <= card["evaluation"]["reward_accuracy/at_12"] <= 1
    assert not read(bundle).optimizer


def test_an_installed_user_is_shown_commands_that_there_are(
    evaluated, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(launching, "is_checkout", lambda: False)
    monkeypatch.setattr(sys, "executable", "/there/bin/python")
    words = ["--mode=export", "--algorithm=simple", "--export_format=bundle"]
    folder = tmp_path / "a folder"
    assert experiment.main([*words, f"--logdir={evaluated}", f"--export_dir={folder}"]) == 0
    given = f"'--model_bundle={folder / 'Catch-v0_model.npz'}'"
    told = capsys.readouterr().out
    for name in ("evaluate", "play"):
        assert f"/there/bin/python -m world_models.{name} {given}" in told
    assert f"impala-train --algorithm=simple --phase=policy {given}" in told


def test_a_policys_card_has_its_real_return_and_not_the_dreamed_one(evaluated, tmp_path):
    words = ["--mode=export", "--export_format=bundle", f"--export_dir={tmp_path}"]
    assert experiment.main([*words, f"--logdir={evaluated}"]) == 0
    card = bundles.card(read(tmp_path / "Catch-v0.npz"))
    last = json.loads((evaluated / "metrics.jsonl").read_text().splitlines()[-1])
    assert card is not None and card["trained_in"] == "a world model"
    assert card["mean_return_in_training"] == last["mean_episode_return"]
    assert card["seed"] == 1 and card["trained_with"]["versions"]["numpy"]
    assert card["evaluation"]["temperature"] == 1.0 and card["evaluation"]["seed"] == 1


def test_a_policy_is_trained_in_a_model_that_somebody_made(bundle, tmp_path, capsys):
    source = f"{bundle.resolve().as_uri().replace('file://', '')}"
    of_model = [name for name in flags(tmp_path) if name.startswith("--model_")]
    given = [one for one in flags(tmp_path, model_bundle=source) if one not in of_model]
    assert experiment.main([*given, "--phase=policy"]) == 0
    assert f"Starting with the world model of {bundle}" in capsys.readouterr().out
    # The run has the model now, and goes on without its file.
    assert evaluate.main([f"--logdir={tmp_path}", *FEW]) == 0
    assert json.loads((tmp_path / "evaluation_model.json").read_text())["updates"] == 4


def test_a_run_that_starts_with_a_models_file_trains_it_on_its_own_play(bundle, tmp_path, capsys):
    def newest() -> Checkpoint:
        found = world_model.newest(tmp_path / "world_model", print)
        assert found
        return found

    file = tmp_path / "model.npz"
    shutil.copy(bundle, file)

    def went_on(phase: str) -> str:
        assert experiment.main(flags(tmp_path, model_bundle=file, phase=phase)) == 0
        return capsys.readouterr().out

    assert "its 4 updates do not count as this run's" in went_on("collect")
    settings = small(world_model="stochastic_discrete")
    model = WorldModel(settings, spec_of(settings))
    model.restore(newest(), tmp_path)
    assert model.updates == 4 and model.rates().learning_rate == np.float32(0.0005)
    assert "model 0: 4 updates" in went_on("model")
    assert newest().counters["updates"] == 8
    *_, last = read_metrics(tmp_path / "world_model")
    assert last["updates"] == 8 and last["model/learning_rate"] == pytest.approx(0.00005)
    file.unlink()  # the run has a model of its own
    assert "nothing is left to compute" in went_on("model")
    assert newest().counters["updates"] == 8


def test_a_models_file_is_evaluated_without_a_run(bundle, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    digest = hashlib.sha256(bundle.read_bytes()).hexdigest()
    entry = f"mine: {{source: {bundle}, sha256: {digest}}}\n"
    (tmp_path / "names.yaml").write_text(entry)
    words = ["--model_bundle=zoo:mine", "--registry=names.yaml", "--rollouts=8"]
    assert evaluate.main([*words, "--played_steps=100"]) == 0
    said = capsys.readouterr().out
    assert "only the model is evaluated" in said and "Nothing is written; --logdir=" in said
    assert [path.name for path in tmp_path.iterdir()] == ["names.yaml"]
    assert evaluate.main([*words, "--played_steps=100", "--logdir=kept"]) == 0
    report = json.loads((tmp_path / "kept/evaluation_model.json").read_text())
    assert report["cells"][0]["played_by"] == "random"


def test_play_without_a_game_is_not_kept_for_an_evaluation(bundle, monkeypatch):
    kept, away, play = [], iter(range(3)), testing.playing.Games.play

    def played(*given):
        part, ended = play(*given)
        is_away = next(away, None) is not None  # as remotes may be
        return part._replace(first=np.ones_like(part.first)) if is_away else part, ended

    def experience(parts, frames):
        kept.extend(parts)
        return Experience(parts, frames)

    monkeypatch.setattr(testing.playing.Games, "play", played)
    monkeypatch.setattr(testing, "Experience", experience)
    assert evaluate.main([f"--model_bundle={bundle}", "--rollouts=8", "--played_steps=100"]) == 0
    assert next(away, None) is None and kept and all(part.steps for part in kept)


def test_the_policy_of_a_run_is_found_where_the_file_system_has_no_links(run, tmp_path):
    run = shutil.copytree(run, tmp_path / "run", symlinks=True)
    (run / "checkpoints").unlink()
    assert experiment.main(["--mode=test", f"--logdir={run}", "--test_num_episodes=2"]) == 0
    assert json.loads((run / "evaluation.json").read_text())["levels"]["Catch-v0"]


def test_a_models_file_has_nothing_to_do_with_a_run_of_its_level(
    bundle, evaluated, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/Catch-v0").symlink_to(evaluated)
    before = {path: path.stat().st_mtime_ns for path in evaluated.rglob("*")}
    assert evaluate.main([f"--model_bundle={bundle}", "--rollouts=8", "--played_steps=100"]) == 0
    assert "a model's file has no policy" in capsys.readouterr().out
    assert before == {path: path.stat().st_mtime_ns for path in evaluated.rglob("*")}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--mode=test", "--checkpoint=BUNDLE"], "is a world model and no agent"),
        (
            ["--algorithm=simple", "--model_bundle=BUNDLE", "--level_name=PongNoFrameskip-v4"],
            "is a world model of Catch-v0 and not of --level_name=PongNoFrameskip-v4",
        ),
        (
            ["--algorithm=simple", "--model_bundle=BUNDLE", "--model_filters=8"],
            "it has filters 4, and this command asks for filters 8",
        ),
        (["--mode=test", "--algorithm=simple", "--model_bundle=DAMAGED"], "is damaged"),
        (["--mode=export", "--algorithm=simple", "--logdir=RUN"], "give --export_format=bundle"),
        (
            ["--mode=test", "--algorithm=simple", "--model_bundle=BUNDLE", "--subjects=agent_real"],
            "has no policy",
        ),
        (
            ["--mode=test", "--algorithm=simple", "--model_bundle=zoo:pong_model", "--logdir=RUN"],
            "expected a model of the same game",
        ),
        (
            [
                *("--mode=export", "--algorithm=simple", "--export_format=bundle"),
                "--model_bundle=BUNDLE",
            ],
            "give --export_dir=FOLDER",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_a_line(
    run, bundle, words, message, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    content = bytearray(bundle.read_bytes())
    content[len(content) // 2] ^= 255
    damaged = tmp_path / "damaged.npz"
    damaged.write_bytes(content)
    paths = {"BUNDLE": str(bundle), "DAMAGED": str(damaged), "RUN": str(run)}
    for name, path in paths.items():
        words = [word.replace(name, path) for word in words]
    assert experiment.main(words) == 2
    error = capsys.readouterr().err
    assert message in error and len(error.strip().splitlines()) == 1
    assert not [*tmp_path.rglob("settings.json")]


@pytest.mark.parametrize(
    "given", [{"level_name": "my_levels:Catch"}, {"base_algorithm": "my_algorithm:Settings"}]
)
def test_a_models_file_names_no_code_unless_its_user_does(given, tmp_path):
    path, found = bundles_of_models.find("zoo:catch_model")
    theirs = dataclasses.replace(found, settings=found.settings | given)
    bundle = Store(tmp_path, 1).save(theirs)
    with pytest.raises(UserError, match="If you trust it, give that flag yourself"):
        bundles_of_models.find(str(bundle))
    assert bundles_of_models.find(str(bundle), "", given)[1].settings == theirs.settings


def test_the_model_of_pong_that_comes_with_the_project_knows_what_comes_next(tmp_path):
    path, found = bundles_of_models.find("zoo:pong_model")
    card = bundles.card(found)
    assert path.stat().st_size < 2**20 and card is not None and card["trained_with"]["commit"]
    words = ["--model_bundle=zoo:pong_model", f"--logdir={tmp_path}", "--played_steps=200"]
    few = ["--rollouts=16", "--rollout_steps=12", "--subjects=model", "--test_policy=random"]
    assert evaluate.main([*words, *few]) == 0
    [cell] = json.loads((tmp_path / "evaluation_model.json").read_text())["cells"]
    assert cell["from_start/reward_accuracy/at_12"] >= 0.9 and cell["pixels_right/at_12"] >= 0.97


def test_the_model_that_comes_with_the_project_predicts_catch(tmp_path):
    path, found = bundles_of_models.find("zoo:catch_model")
    card = bundles.card(found)
    assert path.stat().st_size < 2**20 and card is not None and card["trained_with"]["commit"]
    words = ["--model_bundle=zoo:catch_model", f"--logdir={tmp_path}", "--played_steps=400"]
    assert evaluate.main([*words, "--subjects=model", "--test_policy=random"]) == 0
    [cell] = json.loads((tmp_path / "evaluation_model.json").read_text())["cells"]
    assert cell["from_start/reward_accuracy/to_end"] >= 0.95 and cell["rollouts"] == 128
    # A policy can learn in it, without real play.
    name = "--model_bundle=zoo:catch_model"
    policy = ["--phase=policy", "--dream_ratio=0.1", "--agent_name=ResNetAgent", "--channels=4,4"]
    folder = f"--logdir={tmp_path / 'policy'}"
    assert experiment.main(["--algorithm=simple", name, *policy, folder]) == 0
    assert not (tmp_path / "policy/play").exists()
    assert opened(settings_of(str(tmp_path / "policy"))).model.updates == 3_000
