"""What sync runs on a host: it replaces its own copies and nothing else."""

import base64
import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.backends.ssh import syncing
from cluster.backends.ssh.hosts import COMMAND
from cluster.backends.ssh.syncing import UNPACK, pack
from cluster.model import Host, Place
from cluster.on_host.states import IN_USE, hold
from cluster.plan import REMOTE_PYTHON
from cluster.processes import IN_ITS_FOLDER
from cluster.ssh.failures import HostFailed
from cluster.ssh.ssh import Connections
from tests.cluster.conftest import copy_project
from tests.cluster.plan.plans import plan, row


@pytest.fixture
def project(tmp_path: Path) -> Path:
    copy_project(tmp_path / "project")
    return tmp_path / "project"


def unpack(project: Path, home: Path, cut: int | None = None) -> subprocess.CompletedProcess[str]:
    own = (project / "experiment.py").stat()
    home.mkdir(exist_ok=True)
    return subprocess.run(
        ["sh", "-c", UNPACK, "copy", f"{own.st_ino} {int(own.st_ctime)}"],
        input=base64.b64encode(pack(project)).decode()[:cut],
        env={**os.environ, "HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )


class Home(Connections):
    """A host that is this machine, with a home of its own and a login shell."""

    def __init__(self, home: Path, shell: str):
        self._home, self._shell = home, shell

    def run(self, host: Host, command: str, text: str, seconds: float) -> tuple[int, str, str]:
        done = subprocess.run(
            [self._shell, "-c", command],
            input=text,
            env={**os.environ, "HOME": str(self._home)},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("shell", ["sh", "bash", "csh", "tcsh", "zsh", "fish"])
def test_the_copy_arrives_whatever_the_login_shell_is(shell: str, project: Path, tmp_path: Path):
    if not shutil.which(shell):
        pytest.skip(f"there is no {shell}")
    packed = base64.b64encode(pack(project)).decode()
    place = Place(Host("192.0.2.1", 22, "ann"), "a copy", "its/own/python")
    assert syncing._put(place, "--actor", Home(tmp_path, shell), packed) == {}
    there = tmp_path / "a copy" / "user_error.py"
    assert there.read_text() == (project / "user_error.py").read_text()
    held = hold(str(there.parent))
    assert held is not None
    with pytest.raises(HostFailed, match="a run is running in it"):
        syncing._put(place, "--actor", Home(tmp_path, shell), packed)
    os.close(held)


@pytest.mark.parametrize(("flag", "kind"), [("", "--learner"), ("--algorithm=a3c", "--actor")])
def test_horovod_is_built_where_mpirun_starts_learners(
    flag: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    rows = [row("learner", "10.0.0.1", 8001), row("learner", "10.0.0.2", 8001)]
    kinds: list[str] = []

    def put(place: Place, kind: str, *_: object) -> dict:
        kinds.append(kind)
        return {}

    monkeypatch.setattr(syncing, "_put", put)
    made = plan(rows, *filter(None, [flag]))
    assert syncing.sync(made, Home(tmp_path, "sh"), tmp_path) == 0 and kinds == [kind] * 2


def test_what_a_login_shell_is_given_is_one_line(project: Path, tmp_path: Path):
    commands: list[str] = []

    class Told(Home):
        def run(self, host: Host, command: str, text: str, seconds: float) -> tuple[int, str, str]:
            commands.append(command)
            return 0, "", ""

    place = Place(Host("192.0.2.1", 22, "ann"), "copy", REMOTE_PYTHON)
    syncing._put(place, "--actor", Told(tmp_path, "sh"), "")
    assert len(commands) == 2 and not any("\n" in command for command in commands)


def test_code_is_replaced_and_everything_else_stays(project: Path, tmp_path: Path):
    copy = tmp_path / "home" / "copy"
    assert unpack(project, copy.parent).returncode == 0
    for kept in (".venv/bin/python", "logs/run/checkpoint"):
        (copy / kept).parent.mkdir(parents=True)
        (copy / kept).write_text("mine")
    for gone in ("cluster/gone.py", "gone.py"):
        (copy / gone).write_text("")
    (project / "user_error.py").write_text("newer")
    done = unpack(project, copy.parent)
    assert done.returncode == 0, done.stderr
    assert (copy / "user_error.py").read_text() == "newer"
    assert (copy / "logs/run/checkpoint").exists() and (copy / ".venv/bin/python").exists()
    assert not (copy / "gone.py").exists() and not (copy / "cluster/gone.py").exists()
    assert not list(copy.glob(".sync-*"))


def test_a_folder_that_sync_has_not_made_is_left_alone(project: Path, tmp_path: Path):
    own = tmp_path / "home" / "copy"
    (own / "cluster").mkdir(parents=True)
    for name in ("experiment.py", "cluster/mine.py"):
        (own / name).write_text("mine")
    done = unpack(project, own.parent)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "has files that --action=sync did not put there" in done.stderr
    found = {path.relative_to(own).as_posix() for path in own.rglob("*") if path.is_file()}
    assert found == {"experiment.py", "cluster/mine.py"}


def test_the_frontends_own_folder_is_left_alone_even_if_it_is_a_copy(project: Path, tmp_path: Path):
    # As where a home is shared by the network.
    (project / IN_USE).touch()
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "copy").symlink_to(project)
    done = unpack(project, tmp_path / "home")
    assert done.returncode == 1 and done.stderr == "it is the folder that it is copied from\n"


def test_a_copy_that_a_run_uses_is_left_alone_until_that_ends(project: Path, tmp_path: Path):
    home = tmp_path / "home"
    assert unpack(project, home).returncode == 0
    held = hold(str(home / "copy"))
    assert held is not None
    (project / "user_error.py").write_text("newer")
    done = unpack(project, home)
    assert done.returncode == 1
    assert done.stderr == "a run is running in it: end that with --action=stop first\n"
    assert (home / "copy" / "user_error.py").read_text() != "newer"
    os.close(held)
    assert unpack(project, home).returncode == 0


def test_a_connection_that_breaks_leaves_the_old_version(project: Path, tmp_path: Path):
    home = tmp_path / "home"
    assert unpack(project, home).returncode == 0
    (project / "user_error.py").write_text("newer")
    assert unpack(project, home, cut=5000).returncode != 0
    assert "class UserError" in (home / "copy" / "user_error.py").read_text()
    assert (home / "copy" / "cluster" / "plan.py").exists()


def test_a_checkout_is_not_held(tmp_path: Path):
    assert hold(str(tmp_path)) is None and list(tmp_path.iterdir()) == []
    (tmp_path / IN_USE).touch()
    first, second = hold(str(tmp_path)), hold(str(tmp_path))  # two processes of a run
    assert first is not None and second is not None
    with open(tmp_path / IN_USE, "a") as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(first)
    os.close(second)


def test_a_copy_is_held_over_nfs_too(tmp_path: Path):
    # NFS takes locks of the kind that lockf takes, which the kernel refuses in the same way.
    (tmp_path / IN_USE).touch()
    held = hold(str(tmp_path))
    assert held is not None
    fcntl.lockf(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
    os.close(held)
    asks = [sys.executable, "-c", "import fcntl; fcntl.lockf(8, fcntl.LOCK_SH)"]
    there = ["sh", "-c", IN_ITS_FOLDER, str(tmp_path), *asks]
    done = subprocess.run(there, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_login_whose_shell_looks_elsewhere_first_is_led_to_its_own_folders(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "elsewhere" / "copy").mkdir(parents=True)
    monkeypatch.setenv("CDPATH", str(tmp_path / "elsewhere"))
    home, place = tmp_path / "home", Place(Host("192.0.2.1", 22, "ann"), "copy", REMOTE_PYTHON)
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    (project / "bin" / "setup").write_text("#!/bin/sh\npwd >../where\n")
    packed = base64.b64encode(pack(project)).decode()
    assert syncing._put(place, "--actor", Home(home, "sh"), packed) == {}
    assert (home / "copy" / "user_error.py").exists()
    assert (home / "where").read_text() == f"{home}/copy\n"
    asks = "import os; print(os.getcwd())"
    for words in ([COMMAND, "copy", sys.executable, asks], [IN_ITS_FOLDER, "copy", "pwd"]):
        there = subprocess.run(["sh", "-c", *words], capture_output=True, text=True, check=True)
        assert there.stdout == f"{home}/copy\n"
