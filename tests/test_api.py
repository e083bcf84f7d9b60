"""Training and evaluating from a program: what it returns, how it ends, and that it can be called
again and from anywhere."""

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.trainer.launching import newest
from trainer import Outcome, Settings, UserError, evaluate, read_settings, train
from trainer.storage.records import read_metrics

pytestmark = pytest.mark.xdist_group("api")  # they share a trained run

ROOT = Path(__file__).parents[1]
SMALL: dict[str, Any] = {
    "level_name": "CartPole-v1",
    "envs_per_actor": 4,
    "batch_size": 4,
    "env_threads": 1,
    "total_environment_frames": 1500,
    "report_every_s": 0.05,
}


def small(folder: Path, **changes: Any) -> Settings:
    return Settings(logdir=folder, **SMALL | changes)


def endless(folder: Path) -> Settings:
    return small(folder, total_environment_frames=10**9)


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Outcome:
    """A training that has come to its end."""
    return train(small(tmp_path_factory.mktemp("trained")))


def copy_of(trained: Outcome, folder: Path) -> Path:
    """The folder of a trained run, to go on in."""
    return Path(shutil.copytree(trained.folder, folder / "run"))


def program(text: str, folder: Path, **options: Any) -> subprocess.Popen[str]:
    """A user's program, in a folder of its own."""
    (folder / "program.py").write_text(textwrap.dedent(text))
    return subprocess.Popen(
        [sys.executable, "-u", "program.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def test_the_import_is_light():
    check = (
        "import sys, trainer\n"
        "assert 'trainer.settings' not in sys.modules\n"
        "from trainer import Outcome, Settings, UserError, evaluate, read_settings, train\n"
        "Settings(level_name='CartPole-v1', seed=3)\n"
        "sys.exit('tensorflow' in sys.modules)"
    )
    assert subprocess.call([sys.executable, "-c", check], cwd=ROOT) == 0


def test_a_training_returns_its_folder_and_final_figures(trained):
    assert trained.reason == "all frames are played"
    assert trained.figures["environment_frames"] >= 1500
    last = read_metrics(trained.folder)[-1]
    assert trained.figures["mean_episode_return"] == last["mean_episode_return"]
    assert trained.best_return >= last["mean_episode_return"]
    assert trained.settings.agent.agent_name == "VectorAgent"
    json.dumps(trained.figures)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(trained, "reason", "")  # noqa: B010


def test_the_same_folder_is_already_trained(trained):
    again = train(trained.settings)
    assert again.reason == "already trained"
    assert again.best_return == trained.best_return
    assert again.figures["environment_frames"] == trained.figures["environment_frames"]


def test_a_second_training_of_the_process_resumes_the_first(trained, tmp_path):
    folder = copy_of(trained, tmp_path)
    second = train(small(folder, total_environment_frames=3000))
    assert trained.figures["environment_frames"] < second.figures["environment_frames"]
    assert "Resuming from" in (folder / "train.log").read_text()


def test_the_callback_gets_every_report_and_handlers_of_signals_are_restored(tmp_path):
    reports: list[dict[str, Any]] = []
    before = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]
    train(small(tmp_path), callback=reports.append)
    assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)] == before
    written = [row["environment_frames"] for row in read_metrics(tmp_path)]
    assert [report["environment_frames"] for report in reports] == written
    assert len(written) > 1


def test_the_callback_ends_the_training_by_returning_false(tmp_path):
    reports: list[dict[str, Any]] = []

    def after_three(figures: dict[str, Any]) -> bool:
        reports.append(figures)
        return len(reports) < 3

    outcome = train(endless(tmp_path), after_three)
    assert outcome.reason == "the callback asked for it"
    assert len(reports) in (3, 4)  # the last one is of the end
    assert newest(tmp_path).counters["environment_frames"] > 0


def test_an_error_of_the_callback_leaves_a_checkpoint_and_is_raised(tmp_path):
    def broken(figures: dict[str, Any]) -> None:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        train(endless(tmp_path), broken)
    assert newest(tmp_path).counters["environment_frames"] > 0
    assert train(small(tmp_path)).folder == tmp_path  # the folder is free again


def test_a_training_runs_in_any_thread(tmp_path):
    outcomes: list[Outcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(train(small(tmp_path))))
    thread.start()
    thread.join()
    assert outcomes[0].reason == "all frames are played"


def test_ctrl_c_ends_one_training_and_a_second_one_the_program(tmp_path):
    running = program(
        """
        import os, signal
        from trainer import Settings, train

        def interrupt(figures):
            os.kill(os.getpid(), signal.SIGINT)

        settings = Settings(
            level_name="CartPole-v1", envs_per_actor=4, batch_size=4, report_every_s=0.05
        )
        print("first:", train(settings.replace(logdir="first"), interrupt).reason)
        signal.signal(signal.SIGINT, signal.default_int_handler)

        def twice(figures):
            interrupt(figures)
            interrupt(figures)

        try:
            train(settings.replace(logdir="second"), twice)
        except KeyboardInterrupt:
            print("interrupted")
        """,
        tmp_path,
    )
    output, errors = running.communicate(timeout=100)
    assert running.returncode == 0, errors
    assert "first: SIGINT" in output and output.splitlines()[-1] == "interrupted"
    assert newest(tmp_path / "first").counters["environment_frames"] > 0


def test_sigterm_saves_and_then_ends_the_program(tmp_path):
    running = program(
        """
        import os, signal
        from trainer import Settings, train
        train(
            Settings(level_name="CartPole-v1", logdir="run", report_every_s=0.05),
            lambda figures: os.kill(os.getpid(), signal.SIGTERM),
        )
        print("not reached")
        """,
        tmp_path,
    )
    output, _ = running.communicate(timeout=100)
    assert running.returncode == -signal.SIGTERM
    assert "not reached" not in output
    assert newest(tmp_path / "run").counters["environment_frames"] > 0


def test_a_refused_training_leaves_the_folder_free(trained, tmp_path):
    refused: list[UserError] = []
    folder = copy_of(trained, tmp_path)
    try:
        train(small(folder, agent_name="VectorLSTMAgent"))
    except UserError as error:
        refused.append(error)  # with its traceback, as a notebook keeps it
    assert "--agent_name=VectorLSTMAgent does not fit the run" in str(refused[0])
    assert train(small(folder)).reason == "already trained"


def test_an_evaluation_returns_returns_and_statistics(trained):
    played = evaluate(trained.settings.replace(test_num_episodes=3))
    assert len(played.returns) == 3
    assert played.mean_return == pytest.approx(np.mean(played.returns))
    assert played.environment_frames == trained.figures["environment_frames"]
    assert played.checkpoint.exists()
    assert played.levels["CartPole-v1"]["returns"] == played.returns
    written = json.loads((trained.folder / "evaluation.json").read_text())
    assert written["levels"] == played.levels


def test_the_settings_of_an_outcome_can_be_those_of_another_algorithm(trained):
    chosen = small(trained.folder)
    assert trained.settings != chosen
    assert trained.settings.replace(algorithm="a2c") == chosen.replace(algorithm="a2c")


def test_the_settings_of_one_of_several_agents_train_it_alone(trained, tmp_path):
    one = small(copy_of(trained, tmp_path), agent="left")  # as the outcome of each has them
    assert train(one).reason == "already trained"


def test_a_grid_has_no_mean_of_all_its_combinations(trained):
    played = evaluate(trained.settings.replace(test_num_episodes=1, grid="noops=0,1"))
    assert len(played.grid) == 2
    with pytest.raises(UserError, match="each of .grid has a mean"):
        _ = played.mean_return


def test_an_evaluation_finds_the_run_by_its_level(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "CartPole-v1").symlink_to(trained.folder)
    played = evaluate(Settings(level_name="CartPole-v1", test_num_episodes=2))
    assert len(played.returns) == 2


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"batch_size": 0}, ["--batch_size=0", "1 or more"]),
        ({"batch_size": "16"}, ["--batch_size=16", "a whole number"]),
        ({"batch_size": 2.5}, ["--batch_size=2.5", "a whole number"]),
        ({"learning_rate": "fast"}, ["--learning_rate=fast", "a number"]),
        ({"popart": 1}, ["--popart=1", "true or false"]),
        ({"optimizer": "lion"}, ["--optimizer=lion", "rmsprop or adam or sgd"]),
        ({"level_name": None}, ["--level_name=None", "expected text"]),
        ({"level_name": "A,B,C"}, ["3 levels"]),
        ({"job_name": "learner"}, ["--job_name=learner", "experiment.py"]),
    ],
)
def test_settings_that_cannot_work_are_refused_before_anything_is_written(
    settings, words, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as error:
        train(Settings(**settings))
    for word in words:
        assert word in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_a_misspelt_setting_is_answered_with_the_closest():
    with pytest.raises(TypeError, match="no setting lerning_rate. Did you mean learning_rate"):
        Settings(lerning_rate=1)


def test_paths_and_numbers_of_numpy_are_settings(tmp_path):
    settings = Settings(
        logdir=tmp_path, batch_size=np.int64(16), learning_rate=np.float32(0.5), popart=np.True_
    )
    assert settings == Settings(logdir=str(tmp_path), batch_size=16, learning_rate=0.5, popart=True)
    assert type(settings.learning.batch_size) is int


def test_numbers_are_taken_where_a_flag_takes_text():
    assert Settings(env_processes=2).actors.worker_processes == 2
    assert Settings(hidden_sizes=64).agent.hidden == (64,)
    assert Settings(channels=np.int64(16)) == Settings(channels="16")


@pytest.mark.parametrize(
    ("name", "value"),
    [("hidden_sizes", (64, 64)), ("channels", [16, 32]), ("env_processes", 2.5)],
)
def test_what_is_neither_number_nor_text_is_told_in_one_line(name, value):
    with pytest.raises(UserError, match=rf"^--{name}=.*expected .*numbers? from.*$") as error:
        Settings(**{name: value})
    assert "\n" not in str(error.value)


def test_settings_are_read_as_by_the_flags(tmp_path):
    (tmp_path / "mine.yaml").write_text("batch_size: 16\nseed: 2\n")
    settings = read_settings("cartpole", tmp_path / "mine.yaml", seed=3)
    assert settings.level.level_name == "CartPole-v1"
    assert (settings.learning.batch_size, settings.program.seed) == (16, 3)
    with pytest.raises(UserError, match="Did you mean cartpole"):
        read_settings("cartpol")
