"""requirements/build_horovod, with a stand-in for the Python that builds the wheel."""

import subprocess
from pathlib import Path

import pytest

from tests.bin.conftest import PROJECT, run

# Does what is asked of pip and setup.py in no time, and notes what it is asked for.
PYTHON = """#!/bin/bash
echo "$* HWLOC_COMPONENTS=${HWLOC_COMPONENTS-}" >>"$NOTES"
case $* in
  *" download "*)
    mkdir -p made/horovod/tensorflow sdist
    echo xla_mpi_ops.cc >made/horovod/tensorflow/CMakeLists.txt
    echo RelWithDebInfo >made/setup.py
    tar -czf sdist/horovod-1.tar.gz -C made --transform 's,^[.],horovod-1,' .
    ;;
  "setup.py "*) mkdir -p "${@: -1}" && : >"${@: -1}/horovod-1.whl" ;;
esac
"""


@pytest.fixture
def build(tmp_path: Path):
    """Runs it; what the stand-in was asked for is in `tmp_path / "notes"`."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, text in {"python": PYTHON, "mpirun": "#!/bin/sh\n"}.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    path = f"{programs}:/usr/bin:/bin"

    def done(**environment) -> subprocess.CompletedProcess[str]:
        script = PROJECT / "requirements/build_horovod"
        more = {"NOTES": tmp_path / "notes", "XDG_CACHE_HOME": tmp_path / "cache", "PATH": path}
        return run(script, programs / "python", **(more | environment))

    return done


def test_a_file_system_without_locks_is_told(build, tmp_path):
    flock = tmp_path / "programs/flock"
    flock.write_text("#!/bin/sh\necho 'flock: 8: No locks available' >&2\nexit 71\n")
    flock.chmod(0o755)
    done = build()
    assert done.returncode == 0 and done.stdout.endswith("/horovod-1.whl\n")
    assert "setup: going on without a lock" in done.stderr


def test_the_new_wheel_is_tried_without_a_look_at_x_displays(build, tmp_path):
    first = build()
    assert first.returncode == 0, first.stderr
    assert first.stdout.endswith("/horovod-1.whl\n")
    [tried] = [line for line in (tmp_path / "notes").read_text().splitlines() if "init()" in line]
    assert tried.endswith(" HWLOC_COMPONENTS=-gl")
    (tmp_path / "notes").unlink()
    assert build().stdout == first.stdout  # of the cache
    assert "init()" not in (tmp_path / "notes").read_text()
