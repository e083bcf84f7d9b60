"""bin/setup, bin/train and bin/test: real runs in a copy of the project, with tiny packages.

The copies' lock files name small wheels in a folder, so that a whole setup takes seconds and
needs no network.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from trainer.machine import launching

pytestmark = pytest.mark.xdist_group("setup")

PROJECT = Path(__file__).parents[1]
EXTRAS = ("browser", "pettingzoo", "ray", "trackers")
LAYERS = (
    *("actor", "tensorflow-cpu", "tensorflow-gpu", "lab", "kubernetes", "test", "docs"),
    *EXTRAS,
)
BASIC_COMMANDS = (
    *("bash", "cat", "cmp", "cut", "dirname", "flock", "grep", "mkdir", "readlink", "rm"),
    *("sed", "tail", "xargs"),
)
NOBODY = 65534


def run(*command, cwd=None, user=None, **environment):
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        user=user,
        env=os.environ | {name: str(value) for name, value in environment.items()},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def make_wheel(folder: Path, name: str, version: str = "1.0") -> str:
    """Writes an empty package's wheel and returns the line of a lock file that asks for it."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return f"{name}=={version} --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n"


class Copy:
    """A copy of the project whose packages are tiny wheels."""

    def __init__(self, folder: Path, wheels: Path):
        self.folder = folder
        self.wheels = wheels  # not in the folder: pip does not accept blanks in such a path
        self.requirements = folder / "requirements"

    @classmethod
    def new(cls, folder: Path, wheels: Path) -> "Copy":
        shutil.copytree(PROJECT / "bin", folder / "bin")
        shutil.copytree(PROJECT / "requirements", folder / "requirements")
        wheels.mkdir()
        copy = cls(folder, wheels)
        for layer in LAYERS:
            copy.lock(layer)
        return copy

    def lock(self, layer: str, version: str = "1.0") -> None:
        name = f"tiny_{layer.replace('-', '_')}"
        (self.requirements / f"{layer}.txt").write_text(make_wheel(self.wheels, name, version))

    def run(self, script: str, *arguments, cwd=None, user=None, **environment):
        environment = self.offline() | environment
        return run(self.folder / script, *arguments, cwd=cwd, user=user, **environment)

    def offline(self) -> dict:
        return {"PIP_NO_INDEX": 1, "PIP_FIND_LINKS": self.wheels, "PIP_CONFIG_FILE": os.devnull}

    def installed(self) -> set[str]:
        return {path.stem for path in self.folder.glob(".venv/lib/*/site-packages/tiny*.dist-info")}


@pytest.fixture
def copy(tmp_path):
    """A copy with nothing installed."""
    return Copy.new(tmp_path / "a copy", tmp_path / "wheels")


@pytest.fixture(scope="module")
def set_up_once(tmp_path_factory):
    folder = tmp_path_factory.mktemp("once")
    copy = Copy.new(folder / "a copy", folder / "wheels")
    result = copy.run("bin/setup", "--actor")
    assert result.returncode == 0, result.stderr
    return copy


@pytest.fixture
def set_up(set_up_once, tmp_path):
    """A copy in which an actor is set up."""
    folder, wheels = tmp_path / "a copy", tmp_path / "wheels"
    shutil.copytree(set_up_once.folder, folder, symlinks=True)
    shutil.copytree(set_up_once.wheels, wheels)
    return Copy(folder, wheels)


@pytest.fixture
def bare_path(tmp_path):
    """A PATH with the commands of a minimal Debian without further packages."""
    folder = tmp_path / "bare"
    folder.mkdir()
    for command in BASIC_COMMANDS:
        (folder / command).symlink_to(shutil.which(command))
    for command in ("apt-get", "dpkg", "dpkg-query"):
        (folder / command).write_text("#!/bin/bash\nexit 1\n")
        (folder / command).chmod(0o755)
    return folder


def test_help_names_every_option():
    result = run(PROJECT / "bin/setup", "--help")
    assert result.returncode == 0
    for option in ("--actor", "--learner", "--test", "--no_system", "--dry_run", "--quiet"):
        assert option in result.stdout


def test_an_unknown_option_is_reported_in_one_line():
    result = run(PROJECT / "bin/setup", "--actr")
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert "'--actr'" in result.stderr


def test_an_actor_gets_no_compiler_no_mpi_and_no_horovod(copy, bare_path):
    build_tools = ("g++", "make", "cmake", "mpi", "Horovod")
    actor = copy.run("bin/setup", "--actor", "--dry_run", PATH=bare_path).stdout
    learner = copy.run("bin/setup", "--learner", "--dry_run", PATH=bare_path).stdout
    assert "actor.txt" in actor
    assert not [tool for tool in build_tools if tool in actor]
    assert [tool for tool in build_tools if tool in learner] == list(build_tools)


def test_tensorflow_for_gpus_is_installed_with_a_gpu_and_kept(set_up, bare_path):
    smi = bare_path / "nvidia-smi"
    smi.write_text("#!/bin/bash\nexit 0\n")
    smi.chmod(0o755)
    both = f"{bare_path}:{os.environ['PATH']}"
    assert set_up.run("bin/setup", "--actor", PATH=both).returncode == 0
    smi.unlink()
    assert set_up.run("bin/setup", "--actor", "--quiet").stderr == ""
    assert "tiny_tensorflow_gpu-1.0" in set_up.installed()


def test_a_dry_run_installs_nothing(copy):
    assert copy.run("bin/setup", "--dry_run").returncode == 0
    assert not (copy.folder / ".venv").exists()


def test_setup_installs_what_the_locks_say_and_then_does_nothing(set_up, bare_path):
    assert set_up.installed() == {"tiny_actor-1.0", "tiny_tensorflow_cpu-1.0"}
    # Here apt and dpkg fail, and pip would find no package.
    again = set_up.run("bin/setup", "--actor", "--quiet", PATH=bare_path, PIP_FIND_LINKS="")
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")


def test_a_changed_lock_is_installed(set_up):
    set_up.lock("actor", version="2.0")
    assert set_up.run("bin/setup", "--actor").returncode == 0
    assert "tiny_actor-2.0" in set_up.installed()


def test_a_failed_step_names_its_log_and_a_second_run_continues_from_there(set_up):
    set_up.lock("actor", version="2.0")
    set_up.lock("tensorflow-cpu", version="2.0")
    wheel = set_up.wheels / "tiny_tensorflow_cpu-2.0-py3-none-any.whl"
    hidden = wheel.rename(set_up.folder / wheel.name)
    failed = set_up.run("bin/setup", "--actor")
    assert failed.returncode == 1
    assert "FAILED: Python packages: 1 of requirements/tensorflow-cpu.txt" in failed.stderr
    log = set_up.folder / ".venv/setup-logs/packages-tensorflow-cpu.log"
    assert str(log) in failed.stderr
    assert log.read_text().splitlines()[-1] in failed.stderr

    hidden.rename(wheel)
    repaired = set_up.run("bin/setup", "--actor")
    assert repaired.returncode == 0
    assert "tensorflow-cpu.txt" in repaired.stderr
    assert "actor.txt" not in repaired.stderr
    assert set_up.installed() == {"tiny_actor-2.0", "tiny_tensorflow_cpu-2.0"}


def test_an_incomplete_environment_is_made_again(set_up):
    (set_up.folder / ".venv/bin/activate").unlink()
    assert "environment" in set_up.run("bin/setup", "--actor").stderr
    assert set_up.installed() == {"tiny_actor-1.0", "tiny_tensorflow_cpu-1.0"}


def test_an_environment_of_a_python_that_is_gone_is_made_again(set_up):
    (lib,) = set_up.folder.glob(".venv/lib/python*")
    lib.rename(lib.with_name("python3.9"))
    assert "environment" in set_up.run("bin/setup", "--actor").stderr
    assert lib.exists()
    assert set_up.installed() == {"tiny_actor-1.0", "tiny_tensorflow_cpu-1.0"}


def test_system_packages_are_left_alone_by_later_commands_if_they_are_to_be(set_up, bare_path):
    (set_up.folder / ".venv/setup/horovod").write_text(horovod_recipe(set_up))
    both = {"PATH": bare_path, "PIP_FIND_LINKS": ""}
    assert "tmux" in set_up.run("bin/setup", "--learner", "--quiet", **both).stderr
    assert set_up.run("bin/setup", "--learner", "--no_system").returncode == 0
    quiet = set_up.run("bin/setup", "--learner", "--quiet", **both)
    assert (quiet.returncode, quiet.stderr) == (0, "")
    assert set_up.run("bin/setup", "--actor").returncode == 0
    assert "tmux" in set_up.run("bin/setup", "--learner", "--quiet", **both).stderr


def horovod_recipe(copy: Copy) -> str:
    """What is left behind once it is installed."""
    names = ("horovod.txt", "build_horovod", "tensorflow-cpu.txt")
    return "".join((copy.requirements / name).read_text() for name in names)


def test_an_incomplete_package_is_installed_again(set_up):
    (record,) = set_up.folder.glob(".venv/lib/*/site-packages/tiny_actor-1.0.dist-info/RECORD")
    record.unlink()
    (set_up.folder / ".venv/setup/actor.txt").unlink()
    assert set_up.run("bin/setup", "--actor").returncode == 0
    assert record.exists()


def test_a_wheel_with_another_content_is_refused(set_up):
    set_up.lock("actor", version="2.0")
    with zipfile.ZipFile(set_up.wheels / "tiny_actor-2.0-py3-none-any.whl", "a") as archive:
        archive.writestr("tiny_actor.py", "")
    failed = set_up.run("bin/setup", "--actor")
    assert failed.returncode == 1
    assert "do not match the hashes" in failed.stderr.lower()
    assert "tiny_actor-2.0" not in set_up.installed()


def test_two_setups_at_once_share_the_work(copy):
    command = [str(copy.folder / "bin/setup"), "--actor"]
    environment = os.environ | {name: str(value) for name, value in copy.offline().items()}
    both = [
        subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    printed = "".join(process.communicate(timeout=60)[1] for process in both)
    assert [process.returncode for process in both] == [0, 0]
    assert printed.count("Python environment") == 1
    assert printed.count("actor.txt") == 1


def test_without_root_and_sudo_the_packages_to_install_are_named(set_up, bare_path, tmp_path):
    user = None
    if os.geteuid() == 0:
        user = NOBODY
        open_to_everyone(tmp_path)
    failed = set_up.run("bin/setup", "--learner", PATH=bare_path, user=user)
    assert failed.returncode == 1
    packages = "openmpi-bin openssh-client tmux cmake g++ libopenmpi-dev make"
    assert f"apt-get install {packages}" in failed.stderr


def test_an_extra_alone_comes_on_top_of_what_actors_need(copy, bare_path):
    told = copy.run("bin/setup", "--extra=vnc", "--dry_run", PATH=bare_path).stdout
    assert "tigervnc-standalone-server" in told and "actor.txt" in told
    assert "Horovod" not in told and "chromium" not in told
    assert not any(f"{extra}.txt" in told for extra in EXTRAS)
    told = copy.run("bin/setup", "--extra=browser", "--learner", "--dry_run", PATH=bare_path).stdout
    assert "chromium" in told and "browser.txt" in told and "Horovod" in told
    told = copy.run("bin/setup", "--extra=pettingzoo", "--dry_run", PATH=bare_path).stdout
    assert "pettingzoo.txt" in told and "actor.txt" in told and "Horovod" not in told
    told = copy.run("bin/setup", "--extra=unity", "--dry_run", PATH=bare_path).stdout
    assert "Debian packages:" in told and " npm" in told and "unity" not in told
    told = copy.run("bin/setup", "--test", "--dry_run", PATH=bare_path).stdout
    assert "pettingzoo.txt" in told and "ray.txt" not in told  # only where it is asked for
    told = copy.run("bin/setup", "--test", "--extra=ray", "--dry_run", PATH=bare_path).stdout
    assert "pettingzoo.txt" in told and "ray.txt" in told
    refused = copy.run("bin/setup", "--extra=vcn", PATH=bare_path)
    assert refused.returncode == 2
    known = "there are: vnc browser pettingzoo doom procgen robotics dm_control unity ray"
    assert known in refused.stderr


def test_where_there_is_no_dpkg_commands_that_are_there_are_enough(set_up, bare_path):
    for command in ("apt-get", "dpkg", "dpkg-query"):
        (bare_path / command).unlink()
    needed = ("mpirun", "ssh", "cmake", "g++", "mpicxx", "make")
    for command in (*needed, "cp"):
        (bare_path / command).symlink_to("/bin/true")
    told = set_up.run("bin/setup", "--learner", "--dry_run", PATH=bare_path).stdout
    assert "Debian packages: tmux\n" in told
    failed = set_up.run("bin/setup", "--learner", PATH=bare_path)
    assert failed.returncode == 1 and "There is no apt-get here." in failed.stderr
    told = set_up.run("bin/setup", "--learner", "--no_system", "--dry_run", PATH=bare_path).stdout
    assert "Debian" not in told and "Horovod" in told


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be somebody else")
def test_sudo_keeps_proxies_without_showing_them(set_up, bare_path, tmp_path):
    sudo = bare_path / "sudo"
    sudo.write_text('#!/bin/bash\necho "sudo $*"\nexit 1\n')
    sudo.chmod(0o755)
    open_to_everyone(tmp_path)
    proxies = {"https_proxy": "http://ann:hush@proxy", "no_proxy": "localhost"}
    failed = set_up.run("bin/setup", "--learner", PATH=bare_path, user=NOBODY, **proxies)
    log = (set_up.folder / ".venv/setup-logs/debian-learner.log").read_text()
    assert failed.returncode == 1 and "hush" not in failed.stderr + log
    assert re.search("sudo --preserve-env=https?_proxy,.*no_proxy flock ", log)


@pytest.mark.skipif(
    os.geteuid() != 0
    or subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0,
    reason="needs root and a mount namespace",
)
@pytest.mark.parametrize("there_before", [False, True])
def test_no_package_starts_a_server(copy, bare_path, tmp_path, there_before):
    # In its own mount namespace, /usr/sbin is a folder of this test.
    for command in ("chmod", "env"):
        (bare_path / command).symlink_to(shutil.which(command))
    (bare_path / "dpkg").write_text("#!/bin/bash\n/usr/sbin/policy-rc.d ssh start\necho says $?\n")
    sbin = tmp_path / "sbin"
    sbin.mkdir()
    if there_before:
        (sbin / "policy-rc.d").write_text("#!/bin/bash\nexit 42\n")
        (sbin / "policy-rc.d").chmod(0o755)
    before = sorted(sbin.iterdir())
    inside = 'mount --bind "$0" /usr/sbin && PATH=$1 && shift && exec "$@"'
    setup = copy.folder / "bin/setup"
    done = run("unshare", "-m", "sh", "-c", inside, sbin, bare_path, setup, "--test")
    assert done.returncode == 1
    log = (copy.folder / ".venv/setup-logs/debian-test.log").read_text()
    assert f"says {42 if there_before else 101}" in log
    assert sorted(sbin.iterdir()) == before


def open_to_everyone(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o777)
    for parent in folder.parents:
        if parent.name.startswith(("pytest-", "popen-")):  # the latter of pytest-xdist
            parent.chmod(0o755)


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


def pins(lock: Path) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==(\S+)", lock.read_text(), flags=re.MULTILINE))


@pytest.mark.parametrize("lock", sorted((PROJECT / "requirements").glob("*.txt")), ids=str)
def test_every_locked_package_has_a_hash_and_no_address(lock):
    text = lock.read_text()
    blocks = re.split(r"^(?=[\w.-]+==)", text, flags=re.MULTILINE)[1:]
    assert blocks
    assert all("--hash=sha256:" in block for block in blocks)
    assert "://" not in text


def test_the_locks_follow_pyproject():
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    required = [*project["dependencies"], *sum(extras.values(), [])]
    locked: dict[str, str] = {}
    for lock in (PROJECT / "requirements").glob("*.txt"):
        locked |= pins(lock)
    for requirement in map(Requirement, required):
        assert requirement.name in locked
        assert locked[requirement.name] in requirement.specifier


def test_the_locks_are_complete():
    """Setup installs them as they are, without looking for what their packages need."""
    result = run(PROJECT / ".venv/bin/python", "-m", "pip", "check")
    # See requirements/lock: what these ask for is not needed, or may be newer.
    alone = ("miniwob ", "gym3 ", "procgen-mirror ", "dm-control ")
    lacking = [line for line in result.stdout.splitlines() if not line.startswith(alone)]
    assert lacking in ([], ["No broken requirements found."])
