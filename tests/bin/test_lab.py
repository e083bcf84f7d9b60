"""bin/lab: whose modules it runs."""

import pytest

pytestmark = pytest.mark.xdist_group("setup")


def test_the_lab_is_the_projects_also_where_the_current_folder_has_one(set_up, tmp_path):
    for folder, text in (
        (set_up.folder / "lab", "import sys\nprint(*sys.argv[1:])\n"),
        (tmp_path / "lab", "print('another')\n"),
    ):
        folder.mkdir()
        (folder / "__init__.py").touch()
        (folder / "__main__.py").write_text(text)
    done = set_up.run("bin/lab", "status", "--data=x", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "status --data=x\n")
