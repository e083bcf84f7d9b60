"""bin/setup: its options, and the Python packages that it installs."""

import fcntl
import os
import shutil
import signal
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.bin.conftest import EXTRAS, PROJECT, Copy, make_wheel, run

pytestmark = pytest.mark.xdist_group("setup")


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


def test_two_kinds_are_refused_as_only_one_would_be_installed():
    done = run(PROJECT / "bin/setup", "--lab", "--dry_run", "--kubernetes")
    assert done.returncode == 2
    assert done.stderr == (
        "setup: --lab and --kubernetes: give one of them; a second call adds the other\n"
    )


def test_a_dry_run_says_if_nothing_is_missing():
    done = run(PROJECT / "bin/setup", "--lab", "--dry_run")  # the tests run on what it installs
    assert done.returncode == 0 and not done.stdout.startswith("\n")
    assert done.stdout or done.stderr == "setup: nothing is missing for --lab\n"


def test_a_dry_run_installs_nothing(copy):
    assert copy.run("bin/setup", "--dry_run").returncode == 0
    assert not (copy.folder / ".venv").exists()


def test_an_actor_gets_no_compiler_no_mpi_and_no_horovod(copy, bare_path):
    build_tools = ("g++", "make", "cmake", "mpi", "Horovod")
    actor = copy.run("bin/setup", "--actor", "--dry_run", PATH=bare_path).stdout
    learner = copy.run("bin/setup", "--learner", "--dry_run", PATH=bare_path).stdout
    assert "actor.txt" in actor
    assert not [tool for tool in build_tools if tool in actor]
    assert [tool for tool in build_tools if tool in learner] == list(build_tools)


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
    assert " git " in told
    assert "pettingzoo.txt" in told and "ray.txt" not in told  # only where it is asked for
    told = copy.run("bin/setup", "--test", "--extra=ray", "--dry_run", PATH=bare_path).stdout
    assert "pettingzoo.txt" in told and "ray.txt" in told
    for wrong in ("vcn", "doom procgen"):
        refused = copy.run("bin/setup", f"--extra={wrong}", PATH=bare_path)
        assert refused.returncode == 2
        known = "there are: vnc browser pettingzoo doom procgen robotics dm_control unity ray"
        assert f"there is no extra '{wrong}'; {known}" in refused.stderr


def test_setup_installs_what_the_locks_say_and_then_does_nothing(set_up, bare_path):
    assert set_up.installed() == {"tiny_actor-1.0", "tiny_tensorflow_cpu-1.0"}
    # Here apt and dpkg fail, and pip would find no package.
    again = set_up.run("bin/setup", "--actor", "--quiet", PATH=bare_path, PIP_FIND_LINKS="")
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")


@pytest.fixture
def gpu(bare_path) -> Path:
    """Its nvidia-smi, where `with_gpu` has it in the PATH."""
    smi = bare_path / "nvidia-smi"
    smi.write_text("#!/bin/bash\nexit 0\n")
    smi.chmod(0o755)
    return smi


def with_gpu(smi: Path) -> str:
    return f"{smi.parent}:{os.environ['PATH']}"


@pytest.fixture
def without_locks(bare_path) -> str:
    """A PATH with the flock of a file system that has no locks."""
    (bare_path / "flock").unlink()
    (bare_path / "flock").write_text("#!/bin/bash\necho 'No locks available' >&2\nexit 71\n")
    (bare_path / "flock").chmod(0o755)
    return f"{bare_path}:{os.environ['PATH']}"


def test_tensorflow_for_gpus_is_installed_with_a_gpu_and_kept(set_up, gpu):
    assert set_up.run("bin/setup", "--actor", PATH=with_gpu(gpu)).returncode == 0
    gpu.unlink()
    assert set_up.run("bin/setup", "--actor", "--quiet").stderr == ""
    assert "tiny_tensorflow_gpu-1.0" in set_up.installed()
    assert not (set_up.folder / ".venv/fetched").exists()


# Named as the packages that are removed for each other.
CPU, GPU = "tensorflow_cpu", "tensorflow"


def test_tensorflow_for_cpus_stays_until_the_other_is_there(set_up, gpu):
    lock_tensorflow(set_up)
    assert set_up.run("bin/setup", "--actor").returncode == 0
    wheel = set_up.wheels / f"{GPU}-1.0-py3-none-any.whl"
    hidden = wheel.rename(set_up.folder / wheel.name)
    offline = set_up.run("bin/setup", "--actor", "--quiet", PATH=with_gpu(gpu))
    assert offline.returncode == 0
    assert "that failed: going on with TensorFlow for CPUs" in offline.stderr
    asked = set_up.run("bin/setup", "--actor", "--gpu", PATH=with_gpu(gpu))
    assert asked.returncode == 1 and "FAILED" in asked.stderr
    assert tensorflows(set_up) == [CPU]
    assert set_up.run("bin/setup", "--actor", "--quiet").stderr == ""  # nothing is missing

    hidden.rename(wheel)
    assert set_up.run("bin/setup", "--actor", "--quiet", PATH=with_gpu(gpu)).returncode == 0
    assert tensorflows(set_up) == [GPU]


def test_what_is_fetched_for_a_gpu_stays_until_it_is_installed(set_up, gpu):
    lock_tensorflow(set_up)
    assert set_up.run("bin/setup", "--actor").returncode == 0
    set_up.lock("actor", version="2.0")  # comes before TensorFlow
    # What is on an index has to be fetched, unlike that of a folder of wheels.
    online = {"PIP_NO_INDEX": 0, "PIP_FIND_LINKS": "", "PIP_INDEX_URL": index(set_up)}
    done = set_up.run("bin/setup", "--actor", PATH=with_gpu(gpu), **online)
    assert done.returncode == 0, done.stderr
    assert tensorflows(set_up) == [GPU] and "tiny_actor-2.0" in set_up.installed()
    assert not (set_up.folder / ".venv/fetched").exists()


def index(copy: Copy) -> str:
    """The address of an index of its wheels."""
    folder = copy.folder / "index"
    for wheel in copy.wheels.iterdir():
        page = folder / wheel.name.partition("-")[0].replace("_", "-") / "index.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        with page.open("a") as links:
            links.write(f'<!DOCTYPE html><a href="{wheel.as_uri()}">{wheel.name}</a>')
    return folder.as_uri()


def test_what_was_installed_for_a_gpu_while_a_setup_waited_stays(set_up, without_locks):
    lock_tensorflow(set_up)
    environment = os.environ | {name: str(value) for name, value in set_up.offline().items()}
    command = [str(set_up.folder / "bin/setup"), "--actor"]
    with (set_up.folder / ".venv/setup.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        late = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        assert late.stderr
        assert late.stderr.readline() == "setup: waiting for another setup of this folder to end\n"
        first = set_up.run("bin/setup", "--actor", "--gpu", PATH=without_locks)
        assert first.returncode == 0, first.stderr
    told = late.stderr.read()
    assert late.wait(60) == 0 and "tensorflow" not in told
    assert tensorflows(set_up) == [GPU]


def test_tensorflow_for_cpus_in_the_place_of_the_other_is_replaced_again(set_up):
    lock_tensorflow(set_up)
    assert set_up.run("bin/setup", "--actor").returncode == 0
    # As an earlier version left it.
    gpu_lock = set_up.requirements / "tensorflow-gpu.txt"
    shutil.copy(gpu_lock, set_up.folder / ".venv/setup")
    assert set_up.run("bin/setup", "--actor", "--quiet").stderr == ""
    assert tensorflows(set_up) == [CPU]
    done = set_up.run("bin/setup", "--actor", "--gpu")
    assert done.returncode == 0 and "tensorflow-gpu.txt" in done.stderr
    assert tensorflows(set_up) == [GPU]


def test_a_remote_needs_no_tensorflow_and_fetches_none(set_up, gpu):
    done = set_up.run("bin/setup", "--remote", "--no_system", PATH=with_gpu(gpu))
    assert done.returncode == 0 and "GPU" not in done.stderr
    assert not (set_up.folder / ".venv/setup-logs/fetch-tensorflow-gpu.log").exists()


def lock_tensorflow(copy: Copy) -> None:
    for layer, name in {"cpu": CPU, "gpu": GPU}.items():
        (copy.requirements / f"tensorflow-{layer}.txt").write_text(make_wheel(copy.wheels, name))


def tensorflows(copy: Copy) -> list[str]:
    found = copy.folder.glob(".venv/lib/*/site-packages/tensorflow*-1.0.dist-info")
    return [path.name.partition("-")[0] for path in found]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be somebody else")
def test_a_folder_of_somebody_else_is_used_as_it_is_where_a_gpu_comes(set_up, gpu, tmp_path):
    readable(tmp_path)
    done = set_up.run("bin/setup", "--actor", "--quiet", PATH=with_gpu(gpu), user=65534)
    assert done.returncode == 0 and done.stderr.count("\n") == 1
    assert "there is a GPU, but .venv cannot be written" in done.stderr


def readable(folder: Path) -> None:
    for path in (folder, *folder.rglob("*"), *folder.parents):
        is_ours = path.is_relative_to(folder) or path.name.startswith(("pytest-", "popen-"))
        if is_ours and not path.is_symlink():
            path.chmod(path.stat().st_mode | 0o555)


def test_a_driver_that_hangs_is_not_waited_for(set_up, gpu):
    # What hangs in the kernel does not end when it is killed, and holds what it was given.
    number = set_up.folder / "number"
    gpu.write_text(f"#!/bin/bash\necho $$ >'{number}'\ntrap '' TERM\nexec sleep 100\n")
    shorter = set_up.folder / "bin/setup"
    text = shorter.read_text()
    assert text.count("read -rt 20") == 1
    shorter.write_text(text.replace("read -rt 20", "read -rt 0.5"))
    try:
        done = set_up.run("bin/setup", "--actor", "--quiet", PATH=with_gpu(gpu))
    finally:
        os.kill(int(number.read_text()), signal.SIGKILL)
    assert done.returncode == 0
    assert done.stderr == "setup: nvidia-smi has not answered for 20 s, so no GPU is looked for\n"


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


def test_scripts_of_a_folder_that_was_moved_run_again_and_nothing_is_installed(set_up, tmp_path):
    before = (set_up.folder / ".venv/bin/pip").read_text()
    assert str(set_up.folder) in before
    moved = Copy(set_up.folder.rename(tmp_path / "another place"), set_up.wheels)
    pip = moved.folder / ".venv/bin/pip"
    done = moved.run("bin/setup", "--actor", "--quiet", PIP_FIND_LINKS="")
    assert done.returncode == 0 and "packages" not in done.stderr
    assert str(moved.folder) in run(pip, "--version").stdout
    assert moved.installed() == {"tiny_actor-1.0", "tiny_tensorflow_cpu-1.0"}
    for path in (moved.folder / ".venv/bin").iterdir():
        assert path.is_symlink() or str(set_up.folder) not in path.read_text(), path
    assert moved.run("bin/setup", "--actor", "--quiet").stderr == ""
    (tmp_path / "linked").mkdir()
    for name in ("bin", "requirements"):
        shutil.copytree(moved.folder / name, tmp_path / "linked" / name)
    (tmp_path / "linked/.venv").symlink_to(moved.folder / ".venv")
    linked = Copy(tmp_path / "linked", set_up.wheels)
    assert linked.run("bin/setup", "--actor", "--quiet").stderr == ""


@pytest.mark.parametrize("was_listed", [False, True])
def test_an_incomplete_package_is_installed_again(set_up, was_listed):
    """Cut short before its list of files was there, or when only that of the wheel was."""
    (record,) = set_up.folder.glob(".venv/lib/*/site-packages/tiny_actor-1.0.dist-info/RECORD")
    whole = record.read_text()
    record.unlink()
    if was_listed:
        record.write_text("".join(x for x in whole.splitlines(True) if "/INSTALLER," not in x))
    (set_up.folder / ".venv/setup/actor.txt").unlink()
    assert set_up.run("bin/setup", "--actor").returncode == 0
    assert record.read_text() == whole


def test_a_wheel_with_another_content_is_refused(set_up):
    set_up.lock("actor", version="2.0")
    with zipfile.ZipFile(set_up.wheels / "tiny_actor-2.0-py3-none-any.whl", "a") as archive:
        archive.writestr("tiny_actor.py", "")
    failed = set_up.run("bin/setup", "--actor")
    assert failed.returncode == 1
    assert "do not match the hashes" in failed.stderr.lower()
    assert "tiny_actor-2.0" not in set_up.installed()


def test_a_file_system_without_locks_is_told_and_not_waited_for(set_up, without_locks):
    set_up.lock("actor", version="2.0")
    done = set_up.run("bin/setup", "--actor", "--no_system", PATH=without_locks)
    assert done.returncode == 0 and "tiny_actor-2.0" in set_up.installed()
    assert "setup: going on without a lock" in done.stderr and "waiting" not in done.stderr


def test_packages_go_into_the_environment_wherever_a_users_own_pip_puts_them(set_up, tmp_path):
    mine = tmp_path / "pip.conf"
    mine.write_text("[install]\nuser = true\n")
    set_up.lock("actor", version="2.0")
    elsewhere = {f"PIP_{what}": tmp_path / "mine" for what in ("TARGET", "PREFIX", "ROOT")}
    done = set_up.run("bin/setup", "--actor", PIP_CONFIG_FILE=mine, PIP_USER=1, **elsewhere)
    assert done.returncode == 0, done.stderr
    assert "tiny_actor-2.0" in set_up.installed() and not (tmp_path / "mine").exists()


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
