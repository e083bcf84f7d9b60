"""What programs exit with: a line without a traceback for mistakes, and for Ctrl-C."""

import re
import tomllib
from pathlib import Path

import pytest

import user_error
from environments.extras.levels import EXTRAS
from sandbox.arm import __main__ as arm
from user_error import EndedOutside, UserError, exit_code, setup_command
from world_models import play


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (UserError("not so."), 2, "some: not so.\n"),
        (EndedOutside("it is gone."), 1, "some: it is gone.\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_what_ends_a_program_is_at_most_a_line(error, code, said, capsys):
    def fail():
        raise error

    assert exit_code("some", fail) == code
    assert capsys.readouterr().err == said
    assert exit_code("some", lambda: 3) == 0


@pytest.mark.parametrize(("module", "part"), [(arm, "_act"), (play, "_play")])
def test_ctrl_c_ends_a_program_without_a_traceback(module, part, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, part, stop)
    assert module.main(["--level_name=CartPole-v1"]) == 130


def test_an_extra_is_installed_with_a_command_that_there_is(monkeypatch):
    assert setup_command("doom") == "bin/setup --extra=doom"
    assert setup_command("kubernetes", "--kubernetes") == "bin/setup --kubernetes"
    monkeypatch.setattr(user_error, "is_checkout", lambda: False)
    for flag in "", "--kubernetes":
        told = setup_command("kubernetes", flag)
        assert told == "pip install '.[kubernetes]' in the project's folder"


def test_extras_that_messages_name_are_those_of_the_project():
    root = Path(user_error.__file__).parent
    with open(root / "pyproject.toml", "rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    folders = ("cluster", "environments", "lab", "trainer")
    texts = [path.read_text() for folder in folders for path in (root / folder).rglob("*.py")]
    named = {name for text in texts for name in re.findall(r"setup_command\(['\"](\w[\w-]*)", text)}
    assert "trackers" in named and named | set(EXTRAS) <= set(extras)
