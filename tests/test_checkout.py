"""How an extra is installed where the project runs, as messages name it."""

import re
import tomllib
from pathlib import Path

import checkout
from checkout import setup_command
from environments.extras.levels import EXTRAS


def test_an_extra_is_installed_with_a_command_that_there_is(monkeypatch):
    assert setup_command("doom") == "bin/setup --extra=doom"
    assert setup_command("kubernetes", "--kubernetes") == "bin/setup --kubernetes"
    monkeypatch.setattr(checkout, "is_checkout", lambda: False)
    for flag in "", "--kubernetes":
        told = setup_command("kubernetes", flag)
        assert told == "pip install '.[kubernetes]' in the project's folder"


def test_extras_that_messages_name_are_those_of_the_project():
    root = Path(checkout.__file__).parent
    with open(root / "pyproject.toml", "rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    folders = ("cluster", "environments", "lab", "trainer")
    texts = [path.read_text() for folder in folders for path in (root / folder).rglob("*.py")]
    named = {name for text in texts for name in re.findall(r"setup_command\(['\"](\w[\w-]*)", text)}
    assert "trackers" in named and named | set(EXTRAS) <= set(extras)
