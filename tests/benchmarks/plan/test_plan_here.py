"""Parts and rates measured here are what the plan of a cluster reads."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.plan import cost_fit, cost_model, plan_here, plan_parts
from tests.benchmarks.whole.stopping import stopped_at

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
    validated = run("plan", "--validate", str(tmp_path / "here.csv"))
    assert validated.stdout.splitlines()[2] in done.stdout


def test_a_smoke_leaves_what_was_measured(tmp_path, monkeypatch):
    parts = cost_model.Parts("x", 100, 1000, 100, 1e4, 1e6, 100, 1e6, receive_bytes_per_s=1e6)
    monkeypatch.setattr(plan_parts, "measured", lambda *_: parts)
    monkeypatch.setattr(plan_here, "rate_of", lambda *_: 50.0)
    monkeypatch.chdir(tmp_path)
    plan_here.measure(["--smoke"])
    assert (tmp_path / "logs/plan_here/here.csv").exists()
    assert not (tmp_path / "benchmarks").exists()


def test_one_that_is_stopped_leaves_whole_trainings_with_the_share_of_the_cores(
    tmp_path, monkeypatch
):
    parts = cost_model.Parts("x", 100, 1000, 100, 1e4, 1e6, 100, 1e6, receive_bytes_per_s=1e6)
    monkeypatch.setattr(plan_parts, "measured", lambda *_: parts)
    monkeypatch.setattr(plan_here, "rate_of", stopped_at(3, 20.0))
    cases = [plan_here.Case("one", (), (1, 2)), plan_here.Case("two", (), (1, 2))]
    monkeypatch.setattr(plan_here, "CASES", cases)
    older = cost_model.Parts("y", 1, 1, 1, 1, 1, 1, 1, shared_cores=0.5)
    for name in ("one", "two"):
        (tmp_path / f"{name}.json").write_text(plan_parts.as_json(older))
    with pytest.raises(KeyboardInterrupt):
        plan_here.measure([f"--results={tmp_path}"])
    rows = cost_fit.read_measured(tmp_path / "here.csv")
    assert [(row.parts.stem, row.cluster.actors) for row in rows] == [("one", 1), ("one", 2)]
    kept = {name: cost_model.read_parts(tmp_path / f"{name}.json") for name in ("one", "two")}
    assert kept["one"].shared_cores < 1 and kept["one"].about == "x"
    assert kept["two"] == older


def test_actors_of_a_training_share_the_cores(tmp_path, monkeypatch):
    parts = cost_model.Parts("x", 100, 1000, 100, 1e4, 1e6, 100, 1e6, receive_bytes_per_s=1e6)
    monkeypatch.setattr(plan_parts, "measured", lambda *_: parts)

    def rate(settings, actors, seconds):
        assert settings.actors.actors_on_host == actors
        return 20.0

    monkeypatch.setattr(plan_here, "rate_of", rate)
    plan_here.measure([f"--results={tmp_path}"])


def test_figures_of_the_guide_stay_without_a_folder_of_ones_own(tmp_path, monkeypatch):
    parts = cost_model.Parts("x", 100, 1000, 100, 1e4, 1e6, 100, 1e6, receive_bytes_per_s=1e6)
    monkeypatch.setattr(plan_parts, "measured", lambda *_: parts)
    monkeypatch.setattr(plan_here, "rate_of", lambda *_: 20.0)
    monkeypatch.chdir(tmp_path)
    plan_here.measure([])
    assert len(cost_fit.read_measured(tmp_path / "benchmarks/results/plan_here/here.csv")) == 9
    assert not (tmp_path / "benchmarks/plan").exists()


def test_the_parts_of_this_machine_are_kept_for_the_plan(tmp_path, monkeypatch):
    """They are measured for real above."""
    parts = cost_model.Parts("x", 100, 1000, 100, 1e4, 1e6, 100, 1e6, receive_bytes_per_s=1e6)
    monkeypatch.setattr(plan_parts, "measured", lambda *_: parts)
    plan_parts.measure(["--level_name=CartPole-v1", "--repeats=1", f"--results={tmp_path}"])
    planned = run("plan", "--parts", str(tmp_path / "plan_parts.json"), "--actors=4")
    assert planned.returncode == 0 and "by: x" in planned.stdout


def test_parts_that_were_measured_twice_are_averaged():
    one = cost_model.Parts("x", 100, 1000, 100, 1e4, 1e6, 100, 1e6, receive_bytes_per_s=1e6)
    two = cost_model.Parts("x", 300, 2000, 100, 1e4, 1e6, 100, 1e6, receive_bytes_per_s=3e6)
    mean = plan_parts.mean([one, two])
    assert (mean.actor_steps_per_s, mean.learner_steps_per_s) == (200, 1500)
    assert mean.receive_bytes_per_s == 2e6 and mean.batch_steps == 100


@pytest.mark.parametrize(("part", "shared"), [(0.5, 0.5), (1.0, 1.0), (1.5, 1.0)])
def test_what_sharing_the_cores_costs_is_fitted_and_never_a_gain(part, shared, tmp_path):
    path = tmp_path / "x.json"
    made = cost_model.Parts("x", 100, 1000, 100, 1e4, 1e6, 100, 1e6, receive_bytes_per_s=1e6)
    cluster = cost_model.Cluster(learners=1, actors=2, one_machine=True)
    row = cost_fit.Measured(path, cluster, part * cost_model.predict(made, cluster).rate)
    found = plan_here.share({path: made}, [row])
    assert found[path].shared_cores == pytest.approx(shared, abs=0.01)
    # One rate alone is met by that cost, unless it is better than the prediction.
    error = cost_fit.errors([row], found.__getitem__)[0]
    assert error == pytest.approx(min(0.0, 1 / part - 1), abs=0.01)
