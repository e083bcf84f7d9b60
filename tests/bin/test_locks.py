"""The lock files in requirements/, whose packages bin/setup installs."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.bin.conftest import PROJECT, run


def pins(lock: Path) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==(\S+)", lock.read_text(), flags=re.MULTILINE))


@pytest.mark.parametrize("lock", sorted((PROJECT / "requirements").glob("*.txt")), ids=str)
def test_every_locked_package_has_a_hash_and_no_address(lock):
    text = lock.read_text()
    blocks = re.split(r"^(?=[\w.-]+==)", text, flags=re.MULTILINE)[1:]
    assert blocks
    assert all("--hash=sha256:" in block for block in blocks)
    assert "://" not in text


def test_the_locks_follow_pyproject():
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    required = [*project["dependencies"], *sum(extras.values(), [])]
    locked: dict[str, str] = {}
    for lock in (PROJECT / "requirements").glob("*.txt"):
        locked |= pins(lock)
    for requirement in map(Requirement, required):
        assert requirement.name in locked
        assert locked[requirement.name] in requirement.specifier


def test_the_locks_are_complete():
    """Setup installs them as they are, without looking for what their packages need."""
    result = run(PROJECT / ".venv/bin/python", "-m", "pip", "check")
    # See requirements/lock: what these ask for is not needed, or may be newer.
    alone = ("miniwob ", "gym3 ", "procgen-mirror ", "dm-control ")
    lacking = [line for line in result.stdout.splitlines() if not line.startswith(alone)]
    assert lacking in ([], ["No broken requirements found."])
