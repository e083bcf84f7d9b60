"""An experiment that is being run already, by a lab here or on another host."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.actions import starting
from lab.actions.locking import running_by
from lab.commands import main, parse
from lab.specs import spec as specs
from lab.trials.folder import Experiment
from trainer.storage.folder import FolderLock
from user_error import UserError


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


def test_of_several_experiments_the_newest_that_runs_is_stopped(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
):
    spec = specs.parse("mine", {"level": "CartPole-v1"}, "f")
    newer = Experiment.create(spec, "train", tmp_path, {})
    data = f"--data={tmp_path}"
    assert main(["stop", data]) == 0
    goes_on = f"bin/lab train {newer.folder} goes on."
    assert capsys.readouterr().out == f"{newer.folder} is not running; {goes_on}\n"
    newer.finish({"state": "finished"})
    assert main(["stop", data]) == 0
    assert capsys.readouterr().out == f"{newer.folder} is finished; nothing was running.\n"
    lock = FolderLock(folder)
    monkeypatch.setattr(os, "kill", lambda *_: lock.release())
    assert main(["stop", data]) == 0
    goes_on = f"bin/lab train {folder} goes on."
    assert capsys.readouterr().out == f"{folder} is stopped; {goes_on}\n"


@pytest.mark.parametrize("more", [[], ["--detach"]])
def test_a_second_lab_is_told_in_the_words_of_the_lab(
    folder: Path, held: Path, more: list[str], capsys
):
    assert main(["train", str(folder), *more]) == 2
    assert capsys.readouterr().err == (
        f"lab: {folder} is run by another lab (process {os.getpid()}). bin/lab stop {folder} ends "
        "that one.\n"
    )


def test_a_list_with_an_experiment_that_runs_is_refused_before_the_first_one_starts(
    folder: Path, held: Path, tmp_path: Path, capsys
):
    specs_file, many = tmp_path / "specs.yaml", tmp_path / "many.yaml"
    specs_file.write_text("mine: {level: CartPole-v1}")
    many.write_text(f"{specs_file}: {{mine: train}}")
    assert main(["run", str(many), f"--data={tmp_path}", "--detach"]) == 2
    assert f"{folder} is run by another lab" in capsys.readouterr().err


def test_what_is_refused_in_the_background_is_no_success(tmp_path: Path):
    options = parse(["train", "none", f"--data={tmp_path}"])
    with pytest.raises(UserError, match=r"train none ended at once; see .*lab\.log"):
        starting.detach(["train", "none"], tmp_path / "lab.log", options, lambda _: False)
    assert "none" in (tmp_path / "lab.log").read_text()
    log = tmp_path / "list.log"
    with pytest.raises(UserError, match=r"run none ended at once; see .*list\.log"):
        starting.detach(["run", "none"], log, options, lambda _: log.stat().st_size > 0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "FOLDER", "--new"], "lab: --new: FOLDER is an experiment that goes on as it"),
        (["benchmark", "FOLDER", "--levels=pong"], "lab: --levels=pong: FOLDER is an experiment"),
    ],
)
def test_what_a_folder_would_ignore_is_refused(
    folder: Path, arguments: list[str], words: str, capsys
):
    assert main([one.replace("FOLDER", str(folder)) for one in arguments]) == 2
    said = capsys.readouterr().err
    assert words in said.replace(str(folder), "FOLDER") and said.count("\n") == 1


def test_levels_of_a_benchmark_may_have_any_of_their_names(tmp_path: Path):
    path = tmp_path / "specs.yaml"
    path.write_text("mine: {level: CartPole-v1}")
    _, extra = starting.prepare("benchmark", str(path), "pong,CartPole-v1")
    assert extra["levels"] == ["pong", "CartPole-v1"]
    with pytest.raises(UserError, match="found pongg; expected a set or levels"):
        starting.prepare("benchmark", str(path), "pongg")
    several = tmp_path / "spec.json"  # as that of an experiment is called, which has one
    several.write_text('{"mine": {"level": "CartPole-v1"}, "other": {"level": "CartPole-v1"}}')
    _, both = starting.prepare("benchmark", str(several), "pong")
    assert list(both["specs"]) == ["mine", "other"]
    experiment = Experiment.create(
        specs.parse("mine", {"level": "CartPole-v1"}, "f"), "benchmark", tmp_path, extra
    )
    with pytest.raises(UserError, match="--levels=classic: .*spec.json has its own levels"):
        starting.prepare("benchmark", str(experiment.folder / "spec.json"), "classic")
