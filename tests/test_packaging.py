"""``pip install .``: its commands work in an empty folder, without the project's."""

import os
import subprocess
import sys
import sysconfig
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("packaging")  # they share what is installed

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def programs(tmp_path_factory) -> Path:
    """The programs of an environment in which the project is installed."""
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    # What it depends on is taken from here.
    [packages] = folder.glob("lib/python*/site-packages")
    (packages / "here.pth").write_text(sysconfig.get_path("purelib"))
    install = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--no-deps",
        "--no-index",
    ]
    done = subprocess.run(
        [*install, "--no-build-isolation", ROOT], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return python.parent


@pytest.fixture
def run(programs, tmp_path):
    """Runs one of the programs in an empty folder."""

    def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return subprocess.run(
            [programs / program, *arguments],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
        )

    return run


def test_the_build_leaves_nothing_in_the_checkout(programs):
    assert not [*ROOT.glob("*.egg-info"), *ROOT.glob("build"), *ROOT.glob("dist")]


def test_tests_and_studies_are_not_installed(programs):
    [packages] = programs.parent.glob("lib/python*/site-packages")
    installed = {path.name for path in packages.iterdir()}
    assert {"trainer", "presets", "experiment.py"} <= installed
    assert not {"tests", "docs", "sandbox", "benchmarks"} & installed


def test_a_training_and_its_evaluation_run_in_an_empty_folder(run, tmp_path):
    flags = ["--level_name=CartPole-v1", "--env_threads=1"]
    trained = run("impala-train", *flags, "--total_environment_frames=8000")
    assert trained.returncode == 0, trained.stderr
    assert "impala-train --mode=test" in trained.stdout  # the suggested next command
    assert (tmp_path / "logs/CartPole-v1/checkpoints").is_dir()
    played = run("impala-train", *flags, "--mode=test", "--test_num_episodes=2")
    assert played.returncode == 0, played.stderr


def test_presets_are_installed(run):
    assert "cartpole" in run("impala-train", "--preset=help").stdout
    assert "cartpole" in run("impala-cluster", "--preset=help").stdout


def test_the_commands_call_themselves_by_their_names(run):
    assert run("impala-train", "--help").stdout.startswith("usage: impala-train")
    assert run("impala-train", "--batch_size=0").stderr.startswith("impala-train: --batch_size=0")
    assert run("impala-cluster").stderr.startswith("impala-cluster: --workers_csv_path")
    assert run("impala-lab", "--help").stdout.startswith("usage: impala-lab")


def test_ones_own_modules_are_found_in_the_current_folder(run, tmp_path):
    (tmp_path / "mine.py").write_text(
        textwrap.dedent(
            """
            import dataclasses
            from algorithms.settings import AlgorithmSettings
            from flags import setting

            @dataclasses.dataclass(frozen=True)
            class Mine(AlgorithmSettings):
                warmth: float = setting(0.5, "Learning", "how warm", most=1)
            """
        )
    )
    assert "must be 1 or less" in run("impala-train", "--algorithm=mine:Mine", "--warmth=2").stderr


def test_a_cluster_on_this_machine_is_planned(run, tmp_path):
    (tmp_path / "hosts.csv").write_text("job,ip,tf_port\nlearner,localhost,8001\n")
    shown = run("impala-cluster", "--workers_csv_path=hosts.csv", "--dry_run")
    assert shown.returncode == 0 and "experiment.py" in shown.stdout


def test_other_hosts_need_the_project_itself(run, tmp_path):
    (tmp_path / "hosts.csv").write_text("job,ip,tf_port\nlearner,192.0.2.1,8001\n")
    refused = run("impala-cluster", "--workers_csv_path=hosts.csv", "--action=sync")
    assert refused.returncode == 2
    assert "192.0.2.1" in refused.stderr and "Clone the project" in refused.stderr
