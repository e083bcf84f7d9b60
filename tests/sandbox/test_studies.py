"""The scripts of the studies: small real runs, and what is made of their reports."""

import csv
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
from PIL import Image

from sandbox import curves_with_spread
from sandbox.training_runs import COLUMNS, POINTS, Curve, thinned
from trainer.settings.config import Settings
from trainer.storage.records import read_metrics

PROJECT = Path(__file__).parents[2]
FLAGS = ["--env_threads=1", "--nopopart"]


def start(module: str, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    own = [f"--out={folder / 'out' / 'result'}", f"--logs={folder / 'logs'}"]
    return subprocess.Popen(
        [sys.executable, "-m", f"sandbox.{module}", *own, *arguments],
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(module: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    process = start(module, folder, *arguments)
    out, err = process.communicate(timeout=280)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def table_of(folder: Path) -> list[dict[str, str]]:
    with open(folder / "out" / "result.csv", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    ("module", "variants"),
    [
        ("study_seeds", [""]),
        ("study_precision", ["float32", "bfloat16"]),
    ],
)
def test_a_study_runs_small(module, variants, tmp_path):
    done = run(module, tmp_path, "--smoke", "--", *FLAGS)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = table_of(tmp_path)
    assert list(dict.fromkeys(row["variant"] for row in rows)) == variants
    assert tuple(rows[0]) == COLUMNS
    assert all(float(row["environment_frames"]) > 0 for row in rows)
    with Image.open(tmp_path / "out" / "result.png") as picture:
        assert picture.width > 800
    record = json.loads((tmp_path / "out" / "result.json").read_text())
    assert record["command"].startswith(f"python -m sandbox.{module} --out=")
    assert [one["variant"] for one in record["trainings"]] == variants
    assert all("--nopopart" in one["flags"] for one in record["trainings"])
    assert record["machine"] and record["packages"]["dm-sonnet"]
    for variant in variants:
        assert f"| {variant or '–'} | 1 |" in done.stdout


def test_seeds_are_trained_in_turn_and_a_stopped_study_goes_on(tmp_path):
    flags = ["--level_name=CartPole-v1", "--total_environment_frames=40000"]
    arguments = ["--seeds=3,4", "--reach=1", "--", *flags, "--report_every_s=0.3", *FLAGS]
    stopped = start("study_seeds", tmp_path, *arguments)
    first = tmp_path / "logs" / "seed-3"
    until = time.monotonic() + 200
    while not read_metrics(first):
        assert stopped.poll() is None and time.monotonic() < until, stopped.communicate()
        time.sleep(0.05)
    # As a terminal does it: to both.
    for child in psutil.Process(stopped.pid).children():
        child.send_signal(signal.SIGINT)
    stopped.send_signal(signal.SIGINT)
    _, told = stopped.communicate(timeout=100)
    assert stopped.returncode == 2
    assert "seed-3 was stopped. The same command continues" in told
    frames = read_metrics(first)[-1]["environment_frames"]
    assert 0 < frames < 40000 and not (tmp_path / "out").exists()

    done = run("study_seeds", tmp_path, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Resuming from {first}" in done.stdout
    assert {row["seed"] for row in table_of(tmp_path)} == {"3", "4"}
    assert "frames to 1" in done.stdout

    # What is there already, wherever it lies, is drawn without a training.
    folders = f"three={first},{tmp_path / 'logs' / 'seed-4'}"
    drawn = run("study_seeds", tmp_path / "again", f"--draw={folders}")
    assert drawn.returncode == 0, drawn.stderr
    assert {(row["variant"], row["seed"]) for row in table_of(tmp_path / "again")} == {
        ("three", "3"),
        ("", "4"),
    }


def test_a_training_is_stopped_where_only_its_beginning_counts(tmp_path):
    flags = ["--level_name=CartPole-v1", "--total_environment_frames=1e9"]
    arguments = ["--seeds=3", "--until=30000", "--", *flags, "--report_every_s=0.3", *FLAGS]
    done = run("study_seeds", tmp_path, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = tmp_path / "logs" / "seed-3"
    assert read_metrics(folder)[-1]["environment_frames"] >= 30000
    assert list((folder / "checkpoints").iterdir()), "what was trained can go on"
    counted = [float(row["environment_frames"]) for row in table_of(tmp_path)]
    assert counted and max(counted) <= 30000
    again = run("study_seeds", tmp_path, *arguments)
    assert again.returncode == 0 and f"{folder} is already trained" in again.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--until=-1"], "--until=-1: expected frames"),
        (["--", "--lerning_rate=1"], "--learning_rate"),
        (["--seeds=1,x"], "--seeds=1,x: expected whole numbers"),
        (["--draw=/nowhere/at/all"], "/nowhere/at/all is no run's folder"),
    ],
)
def test_a_mistake_is_told_in_one_line_before_anything_runs(arguments, words, tmp_path):
    done = run("study_seeds", tmp_path, *arguments)
    assert done.returncode == 2 and words in done.stderr and done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def curve(seed: int, returns, variant="", seconds=1.0) -> Curve:
    return Curve(
        variant,
        seed,
        [
            {
                "environment_frames": 1000 * i,
                "agent_steps": 250 * i,
                "wall_time": seconds * i,
                "mean_episode_return": float(value),
                "policy_lag": 2.0,
            }
            for i, value in enumerate(returns, start=1)
        ],
    )


def test_the_spread_is_that_of_the_seeds_where_all_have_a_return():
    long, short = curve(1, range(10)), curve(2, range(10, 15))
    grid, low, mean, high = curves_with_spread.spread([long, short], "environment_frames")
    assert (grid[0], grid[-1]) == (1000, 5000)
    np.testing.assert_allclose(low, (grid - 1000) / 1000)
    np.testing.assert_allclose(high, low + 10)
    np.testing.assert_allclose(mean, low + 5)


def test_the_table_tells_when_each_variant_got_there():
    curves = [curve(1, range(10), "a", 60.0), curve(2, range(5, 15), "a", 60.0)]
    curves.append(curve(1, [1, 2], "b"))
    head, _, first, second = curves_with_spread.table(curves, reach=8.0).splitlines()
    assert "frames to 8" in head
    assert "| a | 2 | 11.5 (9.000 – 14.0) | 11.5 (9.000 – 14.0) |" in first
    assert "| 6.500 (4.000 – 9.000) min |" in first
    assert second.endswith("| never | never |")


def test_a_picture_of_several_variants_is_small(tmp_path):
    random = np.random.default_rng(0)
    curves = [
        curve(seed, np.cumsum(random.normal(size=500)), f"variant {name}")
        for name in range(4)
        for seed in range(3)
    ]
    curves_with_spread.draw(tmp_path / "picture.png", curves, "title")
    assert (tmp_path / "picture.png").stat().st_size < 200_000


@pytest.mark.parametrize("count", [1, POINTS, POINTS + 1, 5 * POINTS + 3])
def test_a_thinned_curve_keeps_its_end(count):
    rows = [{"n": n} for n in range(count)]
    kept = thinned(rows)
    assert kept[-1] == rows[-1] and 0 < len(kept) <= POINTS
    assert kept == sorted(kept, key=lambda row: row["n"])


def test_the_settings_of_the_studies_exist():
    assert Settings().algorithm.correction == "vtrace"
    assert Settings().learning.publish_every_updates == 1


@pytest.mark.xdist_group("remotes")
def test_the_study_of_lag_runs_small_and_compares_every_episode(tmp_path):
    out = tmp_path / "out" / "lag"
    done = subprocess.run(
        [sys.executable, "-m", "sandbox.study_lag", "--smoke", f"--out={out}"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with open(out.with_suffix(".csv"), newline="") as file:
        [row] = csv.DictReader(file)
    assert (row["lag_ms"], row["wrong_episodes"]) == ("40.0", "0")
    assert int(row["episodes"]) > 1 and float(row["reaction_ms"]) > 20
    # An episode may end at one side while the study does; each remote plays one at a time.
    assert 0 <= int(row["one_sided_episodes"]) <= 2
    assert json.loads(out.with_suffix(".json").read_text())["remotes"] == 2
    assert out.with_suffix(".png").stat().st_size > 5_000
