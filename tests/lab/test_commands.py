"""The lab's command line: what it is called, what it needs, and whose modules it runs."""

import dataclasses
import sys
from pathlib import Path

import pytest

from lab import commands
from lab.actions import starting
from lab.commands import main, parse
from lab.results import random_play
from lab.specs import spec as specs
from lab.trials.folder import Experiment
from trainer.machine import launching
from user_error import UserError


@pytest.fixture
def installed(monkeypatch) -> None:
    """The project is where pip has installed it."""
    for module in (launching, commands):
        monkeypatch.setattr(module, "is_checkout", lambda: False)


def test_an_installed_lab_is_called_by_its_command(installed, tmp_path: Path, capsys):
    for words in (["--help"], ["enjoy", "--help"]):
        with pytest.raises(SystemExit):
            main(words)
        told = capsys.readouterr().out
        assert told.startswith("usage: impala-lab") and "bin/" not in told
    spec = specs.parse("mine", {"level": "CartPole-v1"}, "f")
    folder = Experiment.create(spec, "train", tmp_path, {}).folder
    assert main(["dev", str(folder)]) == 2
    assert "found an experiment of impala-lab train" in capsys.readouterr().err


def test_what_the_lab_needs_is_named_where_it_is_missing(monkeypatch, capsys, request):
    monkeypatch.setitem(sys.modules, "optuna", None)
    missing = "lab: there is no Optuna here, which the lab needs: run"
    assert main(["check", "none.yaml"]) == 2
    assert capsys.readouterr().err == f"{missing} bin/lab, which installs it.\n"
    request.getfixturevalue("installed")
    assert main(["check", "none.yaml"]) == 2
    told = capsys.readouterr().err
    assert told == f"{missing} pip install '.[lab]' in the project's folder.\n"


@pytest.mark.parametrize("content", ["{}", '{"specs.yaml": {}}'])
def test_a_list_of_no_experiment_is_refused(content, tmp_path: Path, capsys):
    many = tmp_path / "many.json"
    many.write_text(content)
    assert main(["run", str(many)]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"lab: {many}: found no experiment; expected some, such as")
    assert told.count("\n") == 1


def test_retry_needs_a_folder_and_says_so(capsys):
    with pytest.raises(UserError, match="are required: folder. bin/lab retry --help"):
        parse(["retry"])
    with pytest.raises(SystemExit):
        parse(["retry", "--help"])
    assert "newest of all" not in capsys.readouterr().out
    assert parse(["retry", "data/one"]).trials == []


@pytest.fixture
def own_package(tmp_path: Path, monkeypatch) -> None:
    """The current folder has a package that is called as one of the project's."""
    (tmp_path / "environments").mkdir()
    (tmp_path / "environments/__init__.py").write_text("raise RuntimeError('another')\n")
    monkeypatch.chdir(tmp_path)


def test_random_play_runs_beside_ones_own_packages(own_package):
    given = random_play.worlds({"level_name": "CartPole-v1"})
    settings = {name: dataclasses.asdict(one) for name, one in given.items()}
    assert random_play.measured(settings, lambda _: None)["CartPole-v1"]["episodes"] > 1


def test_a_lab_in_the_background_runs_beside_ones_own_packages(own_package, tmp_path: Path):
    log, options = tmp_path / "lab.log", parse(["train", "none", f"--data={tmp_path}"])
    with pytest.raises(UserError, match="train none ended at once"):
        starting.detach(["train", "none"], log, options, lambda _: False)
    told = log.read_text()
    assert told.startswith("lab: none: ") and "Traceback" not in told


@pytest.mark.parametrize("command", commands.USES)
def test_each_command_shows_how_it_is_used(command, capsys):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    [example] = [line for line in capsys.readouterr().out.splitlines() if "Example: " in line]
    assert parse(example.removeprefix("Example: bin/lab ").split()).command == command
