"""``python -m benchmarks`` lists every benchmark and runs one by its name."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import __main__ as benchmarks

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(
        command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=120
    )


def test_every_benchmark_is_listed_with_a_line(capsys):
    assert benchmarks.main([]) == 0
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()[2:]]
    assert [name for name, _ in lines] == list(benchmarks.known())
    assert {"components", "throughput", "scaleup", "peers", "plan"} <= set(benchmarks.known())
    assert all(len(about) > 20 and "see the package" not in about for _, about in lines)


@pytest.mark.parametrize("name", benchmarks.known())
def test_no_two_benchmarks_share_a_name(name):
    files = [
        *benchmarks.FOLDER.glob(f"*/{name}.py"),
        *benchmarks.FOLDER.glob(f"*/{name}/*main__.py"),
    ]
    assert len(files) == 1


def test_a_benchmark_is_run_by_its_name_wherever_it_is():
    done = run("plan", "--help")
    assert done.returncode == 0, done.stderr
    assert "python -m benchmarks plan" in done.stdout


def test_help_of_a_package_says_what_the_package_does():
    assert "What a frontend costs in front of many hosts" in run("hosts", "--help").stdout


def test_an_unknown_name_is_answered_with_the_closest():
    done = run("througput")
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "'througput'" in done.stderr and "throughput" in done.stderr
