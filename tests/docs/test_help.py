"""What --help shows can be typed as it stands."""

import re
import subprocess
import sys

import pytest

from tests.docs.checking import check
from tests.docs.pages import PROJECT, Block, commands

PROGRAMS = (
    "experiment.py",
    "run_experiment_mm_raw.py",
    "-m sandbox.arm",
    "-m sandbox.study_throughput",
    "-m environments.remote serve",
    "-m world_models.evaluate",
    "-m world_models.play",
    "-m benchmarks components",
    "-m benchmarks plan",
)


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_examples_of_help_are_commands_that_work_here(program):
    done = subprocess.run(
        [sys.executable, *program.split(), "--help"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
        timeout=200,
    )
    told = re.sub(r"\\\n *", " ", done.stdout.replace(sys.executable, ".venv/bin/python"))
    assert not re.search(r"(?<![\w/.`])python3? (-m|\w+\.py)", told)  # which may not be there
    lines = re.findall(
        r"^ *((?:taskset .*)?(?:bin/train|\.venv/bin/python) .*)$", told, re.MULTILINE
    )
    examples = [re.split(r" {2,}(?!-)", line)[0] for line in lines if "[--" not in line]
    assert examples or "[--" in told
    for example in examples:
        for words in commands(Block(PROJECT, "bash", example)):
            if not {"--help", "--preset=help"} & {*words}:  # which print and end
                check(words)
