"""Presets and files of settings: flags win over a file, a file wins over a preset."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cluster import options
from trainer.settings import config, presets
from trainer.settings.config import Settings
from user_error import UserError


@pytest.fixture
def written(tmp_path):
    """Writes a file and returns the flag that names it."""

    def write(text: str, name: str = "run.yaml") -> str:
        (tmp_path / name).write_text(text)
        return f"--config={tmp_path / name}"

    return write


def refusal(*flags: str) -> str:
    with pytest.raises(UserError) as error:
        config.parse(flags)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("name", presets.names())
def test_every_preset_is_described_and_can_be_used_by_a_training_and_by_the_frontend(name):
    assert presets.description(name)
    settings = config.parse([f"--preset={name}"])
    assert settings != Settings()
    _, passed_on = options.parse(["--workers_csv_path=x", f"--preset={name}"])
    assert passed_on.learning == settings.learning


def test_presets_follow_their_studies():
    pong = config.parse(["--preset=pong_two_cores"])
    assert pong.level.level_name == "PongNoFrameskip-v4"
    assert pong.learning.total_environment_frames == 10_000_000
    case_study = config.parse(["--preset=impala_case_study"])
    assert case_study.agent.agent_name == "ResNetLSTMAgent"
    assert case_study.actors.unroll_length == 40
    assert case_study.learning.learning_rate == 0.0003


@pytest.mark.parametrize("program", ["experiment.py", "run_experiment_mm_raw.py"])
def test_help_lists_presets_with_a_line_each_without_loading_tensorflow(program):
    listed = subprocess.run(
        [sys.executable, "-X", "importtime", program, "--preset=help"],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = listed.stdout.splitlines()
    assert [line.split()[0] for line in lines] == presets.names()
    assert all(len(line.split()) > 3 for line in lines)
    assert "tensorflow" not in listed.stderr


@pytest.mark.parametrize("program", ["experiment.py", "run_experiment_mm_raw.py"])
def test_presets_are_listed_where_the_output_has_not_all_of_their_letters(program):
    assert not presets.listing().isascii()
    listed = subprocess.run(
        [sys.executable, program, "--preset=help"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert len(listed.stdout.splitlines()) == len(presets.names()) and not listed.stderr


def test_a_preset_of_ones_own_that_is_broken_keeps_nobody_from_the_others(tmp_path, monkeypatch):
    (tmp_path / "good.yaml").write_text("description: quick\nseed: 2\n")
    (tmp_path / "wrong.yaml").write_text("seed: 1\nseed: 2\n")
    monkeypatch.setattr(presets, "FOLDER", tmp_path)
    assert presets.listing().splitlines() == [
        "good   quick",
        "wrong  --preset=wrong: seed is given twice.",
    ]
    assert config.parse(["--preset=good"]).program.seed == 2


@pytest.mark.parametrize("flag", ["--preset", "--config"])
@pytest.mark.parametrize("parse", [config.parse, options.parse])
def test_a_preset_or_file_without_a_name_is_refused(flag, parse):
    with pytest.raises(UserError, match=f"^{flag}= names nothing"):
        parse([f"{flag}=", "--seed=2"])


def test_an_unknown_preset_is_answered_with_the_closest():
    answer = refusal("--preset=pong_to_cores")
    assert "--preset=pong_to_cores is not known" in answer
    assert "Did you mean pong_two_cores" in answer


def test_on_and_off_are_words_in_a_file(written):
    settings = config.parse([written("xla: off\nseparate_baseline: on\nwatch: off\n")])
    assert (settings.learning.xla, settings.agent.separate_baseline) == ("off", "on")
    assert settings.trained.watch is False


def test_flags_win_over_a_file_and_a_file_wins_over_a_preset(written):
    file = written("batch_size: 16\nunroll_length: 20\n")
    settings = config.parse(["--preset=cartpole", file, "--unroll_length=30"])
    assert settings.level.level_name == "CartPole-v1"  # the preset's
    assert settings.learning.batch_size == 16  # the file's
    assert settings.actors.unroll_length == 30  # the flag's
    assert settings.algorithm.baseline_cost == Settings().algorithm.baseline_cost
    assert settings == config.parse([file, "--unroll_length=30", "--preset=cartpole"])


def test_switches_of_a_file_can_be_turned_over_by_a_flag(written):
    assert config.parse([written("popart: false")]).algorithm.popart is False
    assert config.parse([written("popart: false"), "--popart"]).algorithm.popart is True
    assert config.parse([written("popart: true"), "--nopopart"]).algorithm.popart is False


def test_settings_of_a_run_are_a_file(written):
    before = config.parse(["--level_name=A-v0,B-v0", "--sticky_actions=0.25", "--nopopart"])
    assert config.parse([written(config.to_json(before), "settings.json")]) == before
    assert config.parse([written(config.to_json(Settings()), "settings.json")]) == Settings()


def test_settings_of_a_cluster_are_those_of_a_training_here(written):
    of_process = ["--job_name=learner", "--learner_host=10.0.0.1:8001", "--actor_hosts=h:1,h:2"]
    file = written(config.to_json(config.parse([*of_process, "--batch_size=16"])), "settings.json")
    here = config.parse([file, "--job_name=local"])
    assert (here.program.job_name, here.learning.batch_size) == ("local", 16)


def test_a_training_passes_over_what_a_file_has_for_its_agent(written):
    file = written("video: x.gif\nnum_videos: 3\nopponent: random\n")
    assert config.parse([file]) == Settings()
    assert config.parse([file, "--mode=test"]).trained.num_videos == 3
    assert not config.parse([file, "--mode=export"]).trained.num_videos
    games = config.parse([file, "--evaluate_every_s=60"])
    assert games.trained.opponent == "random" and not games.trained.video
    assert "--num_videos=2 is for --mode=test" in refusal(file, "--num_videos=2")
    _, passed_on = options.parse(["--workers_csv_path=x", file])
    assert not passed_on.trained.video


def test_an_empty_file_changes_nothing(written):
    assert config.parse([written("# nothing yet\n")]) == Settings()


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("2e8", "total_environment_frames", 200_000_000),
        ("200_000_000", "total_environment_frames", 200_000_000),
        ("2.0", "batch_size", 2),
        ("1e-3", "learning_rate", 0.001),
        ("1", "learning_rate", 1.0),
        ("'0.5'", "learning_rate", 0.5),
        ("yes", "popart", True),
        ("0", "popart", False),
        ("null", "sticky_actions", None),
        ("1000000", "level_name", "1000000"),
    ],
)
def test_values_may_be_written_as_for_a_flag(written, text, name, expected):
    value = config.parse([written(f"{name}: {text}")]).flat()[name]
    assert value == expected and type(value) is type(expected)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lerning_rate: 1", ["there is no setting lerning_rate", "learning_rate"]),
        ("preset: cartpole", ["there is no setting preset"]),
        ("batch_size: 0", ["batch_size: 0: must be 1 or more"]),
        ("batch_size: 2.5", ["batch_size: 2.5: expected a whole number"]),
        ("batch_size: true", ["batch_size: true: expected a whole number"]),
        ("batch_size:", ["batch_size: null: expected a whole number"]),
        ("batch_size: [1, 2]", ["batch_size: [1, 2]: expected a whole number"]),
        ("learning_rate: fast", ["learning_rate: fast: expected a number"]),
        ("learning_rate: .inf", ["learning_rate: inf: expected a finite number"]),
        ("popart: maybe", ["popart: maybe: expected true or false"]),
        ("level_name: true", ["level_name: true: expected text"]),
        ("optimizer: lion", ["optimizer: lion: expected rmsprop or adam or sgd"]),
        ("algorithm: impla", ["impla is not known", "impala"]),
        ("batch_size: 1\nbatch_size: 2", ["batch_size is given twice"]),
        ("batch_size: 1\n\tseed: 2", ["line 2"]),
        ("just words", ["expected settings"]),
        ("- batch_size", ["expected settings"]),
    ],
)
def test_what_is_wrong_in_a_file_is_answered_with_file_and_key(written, text, words):
    flag = written(text)
    answer = refusal(flag)
    assert answer.startswith(flag)
    for word in words:
        assert word in answer


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('{"seed": 1, "seed": 2}', "seed is given twice"),
        ('{\n"seed": }', "line 2"),
        ('{"learning_rate": NaN}', "learning_rate: nan: expected a finite number"),
        ("[]", "expected settings"),
        ("[" * 100_000, "recursion"),
    ],
)
def test_what_is_wrong_in_a_json_file_is_answered_as_well(written, text, word):
    answer = refusal(written(text, "run.json"))
    assert "run.json" in answer and word in answer


def test_a_file_that_cannot_be_read_is_answered(tmp_path):
    assert "cannot be read (No such file or directory)" in refusal("--config=nowhere.yaml")
    assert "cannot be read" in refusal(f"--config={tmp_path}")
    (tmp_path / "noise.yaml").write_bytes(b"\xff\xfe\x00")
    assert "it is not text" in refusal(f"--config={tmp_path / 'noise.yaml'}")


def test_checks_of_several_settings_hold_for_a_file(written):
    assert "3 levels" in refusal(written("level_name: A,B,C\nnum_actors: 2"))


def test_a_file_can_name_the_algorithm_and_its_settings(written):
    file = written("algorithm: tests.algorithms.tiny_q:TinyQSettings\nexploration: 0.25\n")
    assert config.parse([file]).algorithm.exploration == 0.25
    assert "no setting exploration" in refusal(file, "--algorithm=impala")


def test_a_setting_of_another_algorithm_in_a_preset_or_file_names_its_owner(written):
    answer = refusal("--preset=pong_two_cores", "--algorithm=ppo")
    assert "no setting vtrace_lambda; vtrace_lambda is a setting of --algorithm=impala" in answer
    answer = refusal(written("gae_lambda: 0.9"))
    assert "gae_lambda is a setting of --algorithm=ppo or a2c or a3c or reinforce" in answer


def test_what_a_file_or_preset_names_counts_as_given(written):
    flags = ["--preset=impala_case_study", written("seed: 1\n"), "--watch"]
    assert config.given(flags) == {"agent_name", "unroll_length", "learning_rate", "seed", "watch"}


def test_the_frontend_passes_on_flags_instead_of_files(written):
    file = written("workers_csv_path: hosts.csv\nrestart_actors: 3\nbatch_size: 16\nseed: 1\n")
    chosen, settings = options.parse(["--preset=impala_case_study", file, "--seed=5"])
    assert (chosen.workers_csv_path, chosen.restart_actors) == ("hosts.csv", 3)
    passed_on = options.passed_on(settings)
    assert not [flag for flag in passed_on if flag.startswith(("--preset", "--config"))]
    expected = ["--seed=5", "--agent_name=ResNetLSTMAgent", "--unroll_length=40",
                "--batch_size=16", "--learning_rate=0.0003"]  # fmt: skip
    assert sorted(passed_on) == sorted(expected)


def test_the_frontend_takes_the_settings_of_a_process_for_all_of_them(written):
    process = {"job_name": "learner", "task": 3, "learner_host": "a:1", "batch_size": 16}
    file = written(json.dumps(process), "settings.json")
    _, settings = options.parse(["--workers_csv_path=x", file])
    assert settings.learning.batch_size == 16
    assert settings.program.job_name == "local"  # the plan decides
    assert options.passed_on(settings) == ["--batch_size=16"]


def test_a_training_refuses_flags_of_the_frontend_in_a_file(written):
    assert "no setting workers_csv_path" in refusal(written("workers_csv_path: hosts.csv"))


def test_a_wrong_file_is_one_line_before_anything_is_started(written, tmp_path):
    done = subprocess.run(
        [sys.executable, str(Path.cwd() / "experiment.py"), written("lerning_rate: 1")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1 and "learning_rate" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["run.yaml"]
