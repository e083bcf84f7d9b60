"""Files of a benchmark are written whole or not at all."""

import pytest

from benchmarks.tools import files
from tests.trainer.disks import files_limited_to
from user_error import UserError


def test_a_full_disk_is_a_line_and_costs_no_earlier_file(tmp_path):
    path = tmp_path / "some.json"
    files.write(path, "earlier")
    with files_limited_to(1000), pytest.raises(UserError, match=r"some\.json cannot be written"):
        files.write(path, 2000 * "x")
    assert path.read_text() == "earlier" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("folder", ["/proc", "/sys/kernel"])
def test_a_folder_that_takes_no_files_is_refused_before_anything_is_measured(folder):
    with pytest.raises(UserError, match=f"--results={folder}: cannot be written"):
        files.folder(folder)


def test_a_folder_that_cannot_be_made_is_a_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="--results=.*: cannot be written"):
        files.folder(str(tmp_path / "file" / "in it"))
