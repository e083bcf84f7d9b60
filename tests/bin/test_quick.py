"""What ``bin/test --quick`` runs."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# What starts a training: in this process, or as processes of its own.
STARTS = re.compile(
    r"^(from|import) (experiment|tests\.trainer\.(cluster|launching)|trainer\.programs\.local)\b"
    r"|^from (trainer|trainer\.programs) import .*\b(local|train)\b",
    re.MULTILINE,
)


def quick() -> list[Path]:
    """The files and folders that its list names."""
    listed = re.search(r"^quick=\(\n(.*?)^\)", (ROOT / "bin/test").read_text(), re.S | re.M)
    assert listed
    return [ROOT / name for name in listed[1].split()]


def test_quick_tests_are_there_and_start_no_trainings():
    paths = quick()
    assert len(paths) > 20 and not [path for path in paths if not path.exists()]
    files = [file for path in paths for file in ([path] if path.is_file() else path.rglob("*.py"))]
    assert not [str(file) for file in files if STARTS.search(file.read_text())]


@pytest.mark.parametrize("name", ["algorithms/test_all", "algorithms/test_seam", "test_api"])
def test_trainings_show_in_what_their_tests_import(name):
    assert STARTS.search((ROOT / f"tests/{name}.py").read_text())
