"""Pages about Python and other trainers: their programs run, their commands are understood."""

import dataclasses
import inspect
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import trainer
from algorithms import registry
from tests.docs.checking import check
from tests.docs.pages import DOCS, PROJECT, blocks
from trainer.settings.config import fields

PROGRAMS = {block.code.split()[1]: block.code for block in blocks(DOCS / "python.md", "python")}
NOTEBOOKS = {path.stem: json.loads(path.read_text()) for path in DOCS.glob("*.ipynb")}
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (DOCS / "coming_from.md").read_text().splitlines()
    if line.startswith("|")
]
OURS = [code for row in ROWS for code in re.findall("`([^`]+)`", row[1])]


def run(folder: Path, *command: str) -> str:
    """What a program prints, in a folder that holds what the guide says to save there."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{PROJECT}:{folder}", "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def shorter(code: str) -> str:
    """The same program with a training of fewer frames."""
    assert code.count("total_environment_frames=40_000") == 1
    return code.replace("40_000", "8_000")


def test_functions_and_results_are_as_the_page_says():
    page = (DOCS / "python.md").read_text()
    told = dict(re.findall(r"^\| `(\w+)\((.*?)\)` \|", page, re.M))
    assert sorted(told) == ["evaluate", "read_settings", "train"]
    for name, parameters in told.items():
        named = [one.strip(" *").partition("=")[0] for one in parameters.split(",")]
        assert named == list(inspect.signature(getattr(trainer, name)).parameters)
    for result in (trainer.Outcome, trainer.Evaluation):
        assert [one for one in dataclasses.fields(result) if f"`{one.name}`" not in page] == []


def test_the_first_program_trains_and_plays(tmp_path):
    (tmp_path / "program.py").write_text(shorter(PROGRAMS["train_cartpole.py"]))
    ended, played = run(tmp_path, "program.py").splitlines()[-1], tmp_path / "logs/python"
    assert ended.endswith("]") and ended.count(",") == 4  # five returns
    assert (played / "evaluation.json").exists()


def test_the_callback_ends_its_training(tmp_path):
    code = PROGRAMS["good_enough.py"]
    assert code.count("mean < 100") == 1
    (tmp_path / "program.py").write_text(code.replace("mean < 100", "mean < 25"))
    assert "the callback asked for it" in run(tmp_path, "program.py").splitlines()[-1]


def test_the_reporter_reports(tmp_path):
    (tmp_path / "my_reporter.py").write_text(PROGRAMS["my_reporter.py"])
    flags = ["--level_name=CartPole-v1", "--total_environment_frames=4000", "--env_threads=1"]
    printed = run(
        tmp_path, str(PROJECT / "experiment.py"), *flags, "--reporters=my_reporter:Printer"
    )
    frames = [
        int(one) for one in re.findall(r"^CartPole-v1 in logs/CartPole-v1 (\d+) ", printed, re.M)
    ]
    assert frames and frames[-1] >= 4000
    assert "CartPole-v1 in logs/CartPole-v1 ended: all frames are played" in printed


def test_the_notebook_runs_from_top_to_bottom(tmp_path):
    code = shorter(cells_of("first_training"))
    (tmp_path / "cells.py").write_text(f"{code}\nprint(len(played.returns), frames[-1])\n")
    returns, frames = map(int, run(tmp_path, "cells.py").splitlines()[-1].split())
    assert returns == 5 and frames >= 8000


def test_the_notebook_of_agents_plays_them(tmp_path):
    code = cells_of("agents_to_play").replace("from IPython.display", "from shown")
    (tmp_path / "shown.py").write_text("Image = open\ndef display(file): file.close()\n")
    shown = "print(pole.returns, len(pong.returns), len(catch.returns))"
    (tmp_path / "cells.py").write_text(f"{code}\n{shown}\n")
    assert run(tmp_path, "cells.py").splitlines()[-1] == "[500.0, 500.0, 500.0] 1 20"
    assert (tmp_path / "pong.gif").stat().st_size > 10_000


def cells_of(notebook: str) -> str:
    """The code of a notebook."""
    cells = [cell for cell in NOTEBOOKS[notebook]["cells"] if cell["cell_type"] == "code"]
    assert len(cells) > 3
    return "\n".join("".join(cell["source"]) for cell in cells)


def test_what_the_notebook_installs_has_tensorflow():
    told = "".join("".join(cell["source"]) for cell in NOTEBOOKS["first_training"]["cells"])
    (extra,) = re.findall(r"pip install '\.\[([\w-]+)\]'", told)
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    needed = project["optional-dependencies"][extra]
    assert [one for one in needed if one.startswith("tensorflow")] and "pip install ." not in told


@pytest.mark.parametrize("notebook", sorted(NOTEBOOKS))
def test_a_notebook_has_no_outputs(notebook):
    assert not any(cell.get("outputs") for cell in NOTEBOOKS[notebook]["cells"])


@pytest.mark.parametrize(
    "command", [one for one in OURS if one.startswith(("bin/", ".venv/")) and " " in one]
)
def test_commands_for_those_who_know_another_trainer_are_understood(command):
    check(shlex.split(command))


def test_settings_named_there_exist():
    known = {field.name for name in registry.KNOWN for field in fields(name)}
    words = [word for one in OURS if "bin/" not in one for word in re.findall(r"--(\w+)", one)]
    keywords = [word for one in OURS for word in re.findall(r"(\w+)=", one) if "--" not in one]
    frontend = {"action", "tmux_sess", "dry_run", "config", "job"}
    assert {*words, *keywords} - frontend - {"settings"} <= known
    assert len(words) > 20
