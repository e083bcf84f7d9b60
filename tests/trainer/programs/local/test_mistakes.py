"""Mistakes in flags: one line, before anything is made."""

from pathlib import Path

import pytest

from tests.trainer.levels import Pictures, level
from tests.trainer.programs.local.conftest import flags, refusal


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("--level_name=Pnog-v4", ["--level_name", "Pnog-v4"]),
        ("--level_name=no.such.module:make", ["no.such.module:make", "no module"]),
        ("--level_name=tests.trainer.levels:Stepps", ["Stepps", "Did you mean Steps"]),
        (
            f"--level_name={level(Pictures)},CartPole-v1",
            ["cannot share an agent"],
        ),
        ("--agent_name=VectorAgnet", ["--agent_name=VectorAgnet", "VectorAgent"]),
        ("--agent_name=ResNetAgent", ["ResNetAgent needs images", "VectorAgent"]),
        ("--agent_name=no.such:Agent", ["--agent_name=no.such:Agent", "cannot import"]),
        ("--algorithm=..no:Such", ["--algorithm=..no:Such", "cannot import"]),
        ("--agent_name=json:dumps", ["--agent_name=json:dumps", "not an agent"]),
        ("--lerning_rate=1", ["--lerning_rate", "--learning_rate"]),
        ("--discounting=2", ["--discounting=2"]),
        ("--batch_size=0", ["--batch_size=0"]),
    ],
)
def test_a_mistake_is_reported_in_one_line_and_nothing_is_created(tmp_path, capsys, wrong, words):
    error = refusal(capsys, *flags(tmp_path / "run", wrong))
    for word in words:
        assert word in error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("where", ["/proc/run", "{}/file", "{}/file/run"])
def test_a_folder_that_cannot_be_written_is_reported_in_one_line(tmp_path, capsys, where):
    (tmp_path / "file").touch()
    folder = where.format(tmp_path)
    assert f"--logdir={folder} cannot be written" in refusal(capsys, *flags(Path(folder)))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
