"""The study of dreams: the same real steps, with and without a world model."""

import csv
import errno
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import experiment
from sandbox import studies, study_dreams
from trainer.settings.config import Settings, to_json
from user_error import UserError

PROJECT = Path(__file__).parents[2]


def run(*flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sandbox.study_dreams", *flags],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
        timeout=450,
    )


@pytest.mark.timeout(950)
def test_all_ways_have_the_same_real_steps_and_what_is_done_is_kept(tmp_path, monkeypatch):
    """In this process: eight that import TensorFlow would take longer than what they train."""

    def here(*given: str) -> None:
        assert experiment.main(list(given)) == 0

    monkeypatch.setattr(study_dreams, "_experiment", here)
    monkeypatch.setattr(study_dreams.common, "unwind_when_stopped", lambda: None)
    flags = ("--smoke", f"--logdir={tmp_path}", f"--out={tmp_path}/out/dreams")
    monkeypatch.setattr(sys, "argv", ["study_dreams", *flags])
    assert study_dreams.main() == 0
    with open(tmp_path / "out" / "dreams.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["way"] for row in rows] == ["simple_cpu", "ppo_as_in_dreams", "ppo", "impala"]
    assert all(row["games"] == "4" and -1 <= float(row["mean_return"]) <= 1 for row in rows)
    steps = int(rows[0]["real_steps"])
    # The others end with the batch in which they reach these.
    assert all(int(row["real_steps"]) >= steps == 128 for row in rows)
    about = json.loads((tmp_path / "out" / "dreams.json").read_text())
    assert "--smoke" in about["command"] and about["rows"][0]["curve"]
    with Image.open(tmp_path / "out" / "dreams.png") as picture:
        assert picture.width > 600

    monkeypatch.setattr(study_dreams, "_experiment", None)  # nothing is trained or played again
    assert study_dreams.main() == 0
    with open(tmp_path / "out" / "dreams.csv", newline="") as file:
        kept = list(csv.DictReader(file))
    assert [row["mean_return"] for row in kept] == [row["mean_return"] for row in rows]


def test_games_are_played_again_for_more_of_them_and_those_of_another_level_are_refused(
    tmp_path, monkeypatch
):
    def play(*flags: str) -> None:
        games = int(flags[1].removeprefix("--test_num_episodes="))
        played = {"levels": {"Pong": {"mean": games / 10, "episodes": games}}}
        (tmp_path / "evaluation.json").write_text(json.dumps(played))

    play("--mode=test", "--test_num_episodes=3")
    training = study_dreams.Training("ppo", 1, [], tmp_path)
    assert training.play("Pong", 3) == {"mean": 0.3, "episodes": 3}
    monkeypatch.setattr(study_dreams, "_experiment", play)
    assert training.play("Pong", 5) == {"mean": 0.5, "episodes": 5}
    with pytest.raises(UserError, match=r"--level=Catch: .* is of Pong\. Give that level"):
        training.play("Catch", 3)


def test_a_line_that_a_crash_has_cut_is_no_report(tmp_path):
    rows = [json.dumps({"environment_frames": frames}) for frames in (10, 20)]
    (tmp_path / "metrics.jsonl").write_text("\n".join([rows[0], rows[1][:-5], rows[1]]) + "\n")
    reports = study_dreams.Training("ppo", 1, [], tmp_path).reports()
    assert [row["environment_frames"] for row in reports] == [10, 20]


@pytest.mark.parametrize(
    ("number", "code_of_study"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)],
)
def test_a_study_that_is_ended_ends_its_training_once(tmp_path, number, code_of_study):
    (tmp_path / "experiment.py").write_text(
        "import pathlib, signal, sys, time\n"
        "here = pathlib.Path(__file__).parent\n"
        "def end(*_):\n"
        "    time.sleep(1); (here / 'saved').write_text('once'); sys.exit()\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "(here / 'started').touch()\n"
        "time.sleep(600)\n"
    )
    code = (
        "import pathlib, sys; from sandbox import study_dreams as study;"
        "study.PROJECT = pathlib.Path(sys.argv.pop()); sys.exit(study.main())"
    )
    flags = (f"--logdir={tmp_path}/runs", f"--out={tmp_path}/out")
    process = subprocess.Popen([sys.executable, "-c", code, *flags, str(tmp_path)], cwd=PROJECT)
    until = time.monotonic() + 100
    while not (tmp_path / "started").exists():
        assert time.monotonic() < until and process.poll() is None
        time.sleep(0.1)
    process.send_signal(number)
    assert process.wait(60) == code_of_study
    saved = tmp_path / "saved"
    while number == signal.SIGKILL and not (saved.exists() and saved.read_text()):
        assert time.monotonic() < until  # one that is killed cannot wait for it
        time.sleep(0.1)
    assert saved.read_text() == "once"


@pytest.mark.parametrize(
    ("way", "reports", "told"),
    [
        ("ppo", {}, "environment_frames 0 of 100"),
        ("ppo", {"": {"environment_frames": 90}}, "environment_frames 90 of 100"),
        ("simple_cpu", {"": {"environment_frames": 64, "real_steps": 64}}, "real_steps 64 of 128"),
        (
            "simple_cpu",
            {
                "": {"environment_frames": 128, "real_steps": 128},
                "policy": {"environment_frames": 700, "agent_steps": 700},
            },
            "policy has agent_steps 700 of 800",
        ),
    ],
)
def test_a_training_that_was_stopped_is_not_complete(way, reports, told, tmp_path, monkeypatch):
    short: dict[str, Any] = {"algorithm": "simple", "model_epochs": 1, "real_steps": 64}
    settings = Settings(**short, dream_ratio=12.5)
    if way == "ppo":
        settings = Settings(algorithm="ppo", total_environment_frames=100)
    folder = tmp_path / "run"
    (folder / "policy").mkdir(parents=True)
    (folder / "settings.json").write_text(to_json(settings))
    for name, row in reports.items():
        (folder / name / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    # It ends with code 0 after SIGTERM, too.
    code = "import sys\nif '--mode=test' in sys.argv: sys.exit('it plays')\n"
    (tmp_path / "experiment.py").write_text(code)
    monkeypatch.setattr(study_dreams, "PROJECT", tmp_path)
    with pytest.raises(UserError, match=f"was stopped: .*{told}; the same command goes on"):
        study_dreams.Training(way, 1, [], folder).play("Catch-v0", 3)


def test_a_curve_has_the_games_that_ended_since_its_last_point():
    reports = [
        {"agent_steps": 50, "episodes": 1, "recent_episodes": 1, "mean_episode_return": 2.0},
        {"agent_steps": 110, "episodes": 2, "recent_episodes": 2, "mean_episode_return": 3.0},
        {"agent_steps": 210, "episodes": 5, "recent_episodes": 5, "mean_episode_return": 6.0},
        {"agent_steps": 320, "episodes": 5, "recent_episodes": 5, "mean_episode_return": 6.0},
        {"agent_steps": 900, "episodes": 300, "recent_episodes": 100, "mean_episode_return": 9.0},
    ]
    assert study_dreams.by_real_steps(reports, 100) == [(110, 3.0), (210, 8.0)]


@pytest.mark.parametrize("wrong", ["--seeds=1,two", "--seeds=²", "--games=1"])
def test_a_mistake_is_refused_before_anything_is_trained(wrong, tmp_path):
    done = run(wrong, f"--logdir={tmp_path / 'runs'}", f"--out={tmp_path}/x")
    assert done.returncode == 2 and wrong in done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("out", "told"),
    [("", "--out=: expected a name for files"), ("full", "full cannot be written (No space left")],
)
def test_files_that_cannot_be_written_are_one_line(out, told, tmp_path, monkeypatch, capsys):
    def refuses(path, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(study_dreams, "study", lambda given: [{"way": "ppo", "curve": []}])
    monkeypatch.setattr(study_dreams.common, "unwind_when_stopped", lambda: None)
    monkeypatch.setattr(studies, "write_whole", refuses)
    place = f"{tmp_path}/{out}" if out else ""
    monkeypatch.setattr(sys, "argv", ["study_dreams", f"--out={place}"])
    assert study_dreams.main() == 2
    [line] = capsys.readouterr().err.splitlines()
    assert told in line and not list(tmp_path.iterdir())
