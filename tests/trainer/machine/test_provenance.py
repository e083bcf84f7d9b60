"""What is recorded of the code by which something was trained."""

import subprocess
from pathlib import Path

import pytest

from trainer.machine import provenance

GIT = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit."""
    folder = (tmp_path / "repository").resolve()
    folder.mkdir()
    (folder / "file").write_text("a")
    for words in (["init", "-q"], ["add", "file"], ["commit", "-q", "-m", "first"]):
        subprocess.run([*GIT, *words], cwd=folder, check=True)
    return folder


def test_the_commit_is_that_of_the_project_and_says_if_files_differ(repository, monkeypatch):
    monkeypatch.setattr(provenance, "PROJECT", repository)
    commit = provenance.commit()
    assert len(commit) == 40
    (repository / "file").write_text("b")
    assert provenance.commit() == f"{commit}+"


def test_the_repository_below_which_the_project_is_installed_is_not_its_own(
    repository, tmp_path, monkeypatch
):
    for place in (repository / ".venv" / "site-packages", tmp_path):
        place.mkdir(parents=True, exist_ok=True)
        monkeypatch.setattr(provenance, "PROJECT", place)
        assert provenance.commit() == ""
