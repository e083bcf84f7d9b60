"""Parts and rates measured here are what the plan of a cluster reads."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.plan import cost_fit, cost_model, plan_parts

PROJECT = Path(__file__).parents[3]


def run(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", name, *arguments],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )


@pytest.mark.timeout(300)
def test_parts_and_rates_are_measured_and_compared(tmp_path):
    quick = ["--smoke", "--repeats=1", "--seconds=0.05", "--train_s=1"]
    done = run("plan_here", *quick, f"--results={tmp_path}")
    assert done.returncode == 0, done.stderr
    [row] = cost_fit.read_measured(tmp_path / "here.csv")
    parts = cost_model.read_parts(row.parts)
    assert row.steps_per_s > 0 and parts.weights_bytes > parts.gradient_bytes > 0
    assert 0 < parts.shared_cores <= 1
    # One rate alone is met by what sharing the cores is found to cost, if it costs anything.
    if parts.shared_cores < 1:
        assert abs(cost_fit.errors([row])[0]) < 0.01
    validated = run("plan", "--validate", str(tmp_path / "here.csv"))
    assert validated.stdout.splitlines()[2] in done.stdout


def test_the_parts_of_this_machine_are_measured_for_the_plan(tmp_path):
    tiny = ["--level_name=CartPole-v1", "--envs_per_actor=2", "--batch_size=2"]
    quick = ["--repeats=1", "--seconds=0.05", f"--results={tmp_path}"]
    done = run("plan_parts", *tiny, *quick)
    assert done.returncode == 0, done.stderr
    planned = run("plan", "--parts", str(tmp_path / "plan_parts.json"), "--actors=4")
    assert planned.returncode == 0 and "by: CartPole-v1" in planned.stdout


def test_parts_that_were_measured_twice_are_averaged():
    one = cost_model.Parts("x", 100, 1000, 100, 1e4, 1e6, 100, 1e6, receive_bytes_per_s=1e6)
    two = cost_model.Parts("x", 300, 2000, 100, 1e4, 1e6, 100, 1e6, receive_bytes_per_s=3e6)
    mean = plan_parts.mean([one, two])
    assert (mean.actor_steps_per_s, mean.learner_steps_per_s) == (200, 1500)
    assert mean.receive_bytes_per_s == 2e6 and mean.batch_steps == 100
