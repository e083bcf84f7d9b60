"""bin/train: what it sets up, and what it passes on."""

import json

import pytest

from trainer.machine import launching

pytestmark = pytest.mark.xdist_group("setup")


def test_train_passes_its_flags_on_from_any_folder(set_up, tmp_path):
    (set_up.folder / "experiment.py").write_text(
        "import json, os, sys\nprint(json.dumps([os.getcwd(), sys.prefix, *sys.argv[1:]]))\n"
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    result = set_up.run("bin/train", "--level_name=x", "two words", cwd=elsewhere)
    assert result.stderr == ""
    assert json.loads(result.stdout) == [
        str(elsewhere),
        str(set_up.folder / ".venv"),
        "--level_name=x",
        "two words",
    ]


@pytest.mark.parametrize("name", [*launching.SIZES, "SLURM_STEP_NUM_TASKS"])
def test_learners_started_together_get_horovod_whatever_has_started_them(copy, name):
    (copy.folder / "bin/setup").write_text('#!/bin/bash\necho "setup $*"\nexit 1\n')
    pmix = {"PMIX_RANK": "0"} if name.startswith("SLURM") else {}
    for size, kind in ((2, "--learner"), (1, "--actor")):
        told = copy.run("bin/train", **{name: size}, **pmix).stdout
        assert told == f"setup {kind} --quiet\n"
    if pmix:  # actors in one step of Slurm are no team
        assert copy.run("bin/train", **{name: 2}).stdout == "setup --actor --quiet\n"
