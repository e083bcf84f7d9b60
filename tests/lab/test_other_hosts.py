"""An experiment that is being run already, by a lab here or on another host."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.actions.locking import running_by
from lab.commands import main
from lab.specs import spec as specs
from lab.trials.folder import Experiment
from trainer.storage.folder import FolderLock


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    spec = specs.parse("mine", {"level": "CartPole-v1"}, "f")
    return Experiment.create(spec, "train", tmp_path, {}).folder


@pytest.fixture
def held(folder: Path) -> Iterator[Path]:
    """The file of the lock that a running lab has."""
    lock = FolderLock(folder)
    yield folder / ".lock"
    lock.release()


def test_who_runs_it_is_known_while_it_runs(folder: Path):
    assert running_by(folder) is None
    lock = FolderLock(folder)
    (folder / ".lock").chmod(0o444)
    assert running_by(folder) == (os.getpid(), socket.gethostname())
    lock.release()
    assert running_by(folder) is None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("process 1 on another.host\n", " runs on another.host; stop it where it was started."),
        ("", " is running, but which process is not known; stop it where it was started."),
    ],
)
def test_a_process_of_another_host_or_an_unknown_one_gets_no_signal(
    folder: Path, held: Path, line: str, words: str, monkeypatch: pytest.MonkeyPatch, capsys
):
    held.write_text(line)
    monkeypatch.setattr(os, "kill", None)
    assert main(["stop", str(folder)]) == 2
    assert capsys.readouterr().err == f"lab: {folder}{words}\n"
    for command in (["retry", str(folder)], ["clear", str(folder), "--yes"]):
        assert main(command) == 2
        assert capsys.readouterr().err == f"lab: {folder} is running; stop it first.\n"
    assert main(["status", str(folder)]) == 0
    assert " · running, " in capsys.readouterr().out


def test_a_second_lab_is_told_in_the_words_of_the_lab(folder: Path, held: Path, capsys):
    assert main(["train", str(folder)]) == 2
    assert capsys.readouterr().err == (
        f"lab: {folder} is run by another lab (process {os.getpid()}). bin/lab stop {folder} ends "
        "that one.\n"
    )
