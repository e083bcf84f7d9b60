"""The study of throughput: real learners and actors, and what is made of their reports."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox import study_throughput

PROJECT = Path(__file__).parents[2]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sandbox.study_throughput", *arguments],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )


def test_one_learner_is_measured_with_real_actors(tmp_path):
    out = tmp_path / "out" / "result"
    folders = [f"--out={out}", f"--logs={tmp_path / 'logs'}"]
    quick = ["--actors=2", "--warm_up_s=1", "--seconds=3"]
    own = ["--", "--level_name=CartPole-v1", "--env_threads=1", "--envs_per_actor=4"]
    done = run(*folders, *quick, *own)
    assert done.returncode == 0, done.stdout + done.stderr
    with open(f"{out}.csv", newline="") as file:
        [row] = csv.DictReader(file)
    assert row["actors"] == "2" and float(row["steps_per_second"]) > 0
    assert 0 <= float(row["learner_wait_share"]) <= 1
    assert Path(f"{out}.png").stat().st_size > 1000
    logs = list((tmp_path / "logs").glob("*/task=*.log"))
    assert len(logs) == 2
    assert all("Connected to the learner" in log.read_text() for log in logs)
    assert not left_over(tmp_path)


def left_over(folder: Path) -> list[str]:
    """Command lines of processes that still name the folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if f"--logdir={folder}" in line:
            found.append(line)
    return found


def test_a_wrong_flag_is_told_in_one_line(tmp_path):
    done = run(f"--logs={tmp_path}", "--", "--level_nam=x")
    assert done.returncode == 2 and "--level_name" in done.stderr
    assert done.stderr.count("\n") == 1 and not list(tmp_path.iterdir())


def test_the_rate_is_that_of_the_span_between_the_first_report_and_the_last():
    def report(seconds: float, steps: int, waits: float) -> dict:
        return {
            "wall_time": seconds,
            "agent_steps": steps,
            "learner_wait_share": waits,
            "actor_wait_share": 0.0,
            "policy_lag": 1.0,
        }

    rows = [report(10, 1000, 0.9), report(12, 3000, 0.4), report(14, 5000, 0.6)]
    summary = study_throughput.summed_up(3, rows)
    assert summary["steps_per_second"] == pytest.approx(1000)
    assert summary["learner_wait_share"] == pytest.approx(0.5)
    assert summary["limited_by"].startswith("actors")
