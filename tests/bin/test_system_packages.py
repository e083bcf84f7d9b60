"""bin/setup and the packages of the system: what is asked of apt, by whom, and in which way."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.bin.conftest import Copy, run

pytestmark = pytest.mark.xdist_group("setup")

NOBODY = 65534


def test_system_packages_are_left_alone_by_later_commands_if_they_are_to_be(set_up, bare_path):
    (set_up.folder / ".venv/setup/horovod").write_text(horovod_recipe(set_up))
    both = {"PATH": bare_path, "PIP_FIND_LINKS": ""}
    assert "tmux" in set_up.run("bin/setup", "--learner", "--quiet", **both).stderr
    assert set_up.run("bin/setup", "--learner", "--no_system").returncode == 0
    quiet = set_up.run("bin/setup", "--learner", "--quiet", **both)
    assert (quiet.returncode, quiet.stderr) == (0, "")
    # As --action=sync does, or as somebody does who wants something else besides.
    synced = set_up.run("bin/setup", "--learner", **both)
    assert (synced.returncode, synced.stderr) == (0, "setup: nothing is missing for --learner\n")
    assert set_up.run("bin/setup", "--actor", "--extra=browser").returncode == 0
    assert set_up.run("bin/setup", "--learner", "--quiet", **both).stderr == ""
    assert set_up.run("bin/setup", "--actor", "--system").returncode == 0
    assert "tmux" in set_up.run("bin/setup", "--learner", "--quiet", **both).stderr


def test_the_choice_is_remembered_also_where_nothing_is_missing_and_nothing_is_said(set_up):
    chosen = set_up.folder / ".venv/setup/no_system"
    for choice, is_there in (("--no_system", True), ("--system", False)):
        words = ("--actor", choice, "--quiet")
        assert set_up.run("bin/setup", *words, "--dry_run").returncode == 0
        assert chosen.exists() != is_there
        for given in (words, ("--actor", "--quiet")):  # the second chooses nothing
            done = set_up.run("bin/setup", *given)
            assert (done.returncode, done.stderr) == (0, "") and chosen.exists() == is_there


def test_what_an_extra_needs_of_the_system_is_named_where_it_is_to_be_left_alone(set_up, bare_path):
    both = {"PATH": bare_path, "PIP_FIND_LINKS": ""}
    left_out = "not installed, as --no_system was given: tigervnc-standalone-server"
    for choice in (["--no_system"], []):  # it is remembered
        told = set_up.run("bin/setup", "--extra=vnc", *choice, **both)
        assert (told.returncode, told.stderr) == (
            0, f"setup: {left_out}; --system installs them\n"
        )  # fmt: skip
    assert set_up.run("bin/setup", "--extra=vnc", "--quiet", **both).stderr == ""
    program(bare_path / "Xtigervnc", "true")  # installed in another way
    told = set_up.run("bin/setup", "--extra=vnc", **both)
    assert told.stderr == "setup: nothing is missing for --actor\n"


def test_system_packages_are_not_both_wanted_and_unwanted(copy):
    done = copy.run("bin/setup", "--system", "--no_system")
    assert done.returncode == 2 and not (copy.folder / ".venv").exists()
    assert done.stderr == "setup: --system and --no_system: give one of them\n"


def test_they_are_left_alone_after_a_setup_that_failed_too(set_up, bare_path):
    set_up.lock("actor", version="2.0")
    (set_up.wheels / "tiny_actor-2.0-py3-none-any.whl").unlink()
    (set_up.folder / ".venv/bin/activate").unlink()  # so that the environment is made again
    assert set_up.run("bin/setup", "--learner", "--no_system").returncode == 1
    both = {"PATH": bare_path, "PIP_FIND_LINKS": ""}
    told = set_up.run("bin/setup", "--learner", "--quiet", **both).stderr
    assert "Debian" not in told and "FAILED: Python packages: 1 of requirements/actor.txt" in told


def horovod_recipe(copy: Copy) -> str:
    """What is left behind once it is installed."""
    names = ("horovod.txt", "build_horovod", "tensorflow-cpu.txt")
    return "".join((copy.requirements / name).read_text() for name in names)


def test_without_root_and_sudo_the_packages_to_install_are_named(set_up, bare_path, tmp_path):
    user = None
    if os.geteuid() == 0:
        user = NOBODY
        open_to_everyone(tmp_path)
    failed = set_up.run("bin/setup", "--learner", PATH=bare_path, user=user)
    assert failed.returncode == 1
    packages = "openmpi-bin openssh-client tmux cmake g++ libopenmpi-dev make"
    assert f"apt-get install {packages}" in failed.stderr


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


def test_a_command_may_be_of_another_package_than_debians(set_up, bare_path):
    path = f"{bare_path}:/usr/bin"
    knows = """#!/bin/bash
    if [[ $1 == --search ]]; then echo "theirs: $2"; fi
    if [[ ${@: -1} == %s ]]; then echo installed; fi
    """
    for theirs, missing in (("theirs", False), ("nothing", True)):
        (bare_path / "dpkg-query").write_text(knows % theirs)
        told = set_up.run("bin/setup", "--learner", "--dry_run", PATH=path).stdout
        assert ("Debian packages:" in told and "tmux" in told) == missing


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


IN_A_NAMESPACE = pytest.mark.skipif(
    os.geteuid() != 0
    or subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0,
    reason="needs root and a mount namespace",
)


def set_up_as_root(copy: Copy, path: Path, sbin: Path) -> str:
    """The log of what a failing bin/setup --test does; /usr/sbin is `sbin` there."""
    for command in ("chmod", "env", "sort"):
        if not (path / command).exists():
            (path / command).symlink_to(shutil.which(command) or command)
    sbin.mkdir(exist_ok=True)
    inside = 'mount --bind "$0" /usr/sbin && PATH=$1 && shift && exec "$@"'
    setup = copy.folder / "bin/setup"
    done = run("unshare", "-m", "sh", "-c", inside, sbin, path, setup, "--test")
    assert done.returncode == 1
    return (copy.folder / ".venv/setup-logs/debian-test.log").read_text()


def program(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)


@IN_A_NAMESPACE
@pytest.mark.parametrize("there_before", [False, True])
def test_no_package_starts_a_server(copy, bare_path, tmp_path, there_before):
    # In its own mount namespace, /usr/sbin is a folder of this test.
    program(bare_path / "dpkg", "/usr/sbin/policy-rc.d ssh start\necho says $?")
    sbin = tmp_path / "sbin"
    sbin.mkdir()
    if there_before:
        program(sbin / "policy-rc.d", "exit 42")
    before = sorted(sbin.iterdir())
    assert f"says {42 if there_before else 101}" in set_up_as_root(copy, bare_path, sbin)
    assert sorted(sbin.iterdir()) == before


@IN_A_NAMESPACE
def test_another_apt_is_waited_for_and_any_other_error_is_not(copy, bare_path, tmp_path):
    fails_twice = """
    echo "${0##*/} $1" | tee -a "$0.tries"
    if (($(grep -c -- "$1" "$0.tries") < 3)); then echo "E: %s" >&2; exit 100; fi
    """
    held = "Could not get lock /var/lib/apt/lists/lock. It is held by process 42 (apt-get)"
    locked = "dpkg frontend lock was locked by another process with pid 42"
    (bare_path / "tee").symlink_to(shutil.which("tee"))
    program(bare_path / "sleep", "echo waits")
    program(bare_path / "apt-get", fails_twice % held)
    program(bare_path / "dpkg", fails_twice % locked)
    log = set_up_as_root(copy, bare_path, tmp_path / "sbin")
    assert [log.count(what) for what in ("dpkg --configure", "apt-get update")] == [3, 3]
    assert log.count("waits") == 4 and log.count("apt-get install") == 1
    for command in ("apt-get", "dpkg"):
        program(bare_path / command, "echo 'the clock is wrong'; exit 100")
        log = set_up_as_root(copy, bare_path, tmp_path / "sbin")
        assert "the clock is wrong" in log and "waits" not in log


@IN_A_NAMESPACE
def test_what_a_full_disk_has_cut_short_is_mended_by_apt(copy, bare_path, tmp_path):
    said = "dependency problems prevent configuration of gcc: gcc depends on gcc-12"
    program(bare_path / "dpkg", f"echo '{said}'; exit 1")
    program(bare_path / "apt-get", 'echo "apt-get $*"')
    log = set_up_as_root(copy, bare_path, tmp_path / "sbin")
    done = [line for line in log.splitlines() if line.startswith("apt-get ")]
    assert [line.split()[1] for line in done] == ["update", "install", "install"]
    assert "--fix-broken" in done[1] and "--no-remove" in done[1] and " cmake" not in done[1]
    assert "--fix-broken" not in done[2] and " cmake" in done[2]
    program(bare_path / "apt-get", 'echo "apt-get $*"; [[ $* != *--fix-broken* ]]')
    assert " cmake" not in set_up_as_root(copy, bare_path, tmp_path / "sbin")


@IN_A_NAMESPACE
def test_a_root_without_sbin_in_its_path_has_it_for_dpkg(copy, bare_path, tmp_path):
    (tmp_path / "sbin").mkdir()
    program(tmp_path / "sbin" / "start-stop-daemon", "true")
    program(bare_path / "dpkg", "command -v start-stop-daemon; exit 1")
    assert "/sbin/start-stop-daemon\n" in set_up_as_root(copy, bare_path, tmp_path / "sbin")


# Of all packages, at most this one is installed.
KNOWS = "if [[ -e $0.ssh && ${@: -1} == openssh-server ]]; then echo installed; fi"


@IN_A_NAMESPACE
@pytest.mark.parametrize("fails", ["update", "install"])
def test_a_server_that_somebody_installs_after_a_failed_setup_is_left_alone(
    copy, bare_path, tmp_path, fails
):
    program(bare_path / "dpkg", "true")
    program(bare_path / "dpkg-query", KNOWS)
    program(bare_path / "update-rc.d", 'echo "update-rc.d $*"')
    program(bare_path / "apt-get", f"[[ $1 != {fails} ]]")
    assert "update-rc.d" not in set_up_as_root(copy, bare_path, tmp_path / "sbin")
    (bare_path / "dpkg-query.ssh").touch()
    program(bare_path / "apt-get", "true")
    assert "update-rc.d" not in set_up_as_root(copy, bare_path, tmp_path / "sbin")


@IN_A_NAMESPACE
def test_a_server_that_comes_with_a_setup_that_fails_does_not_start_at_boot(
    copy, bare_path, tmp_path
):
    program(bare_path / "dpkg", "true")
    program(bare_path / "dpkg-query", KNOWS)
    program(bare_path / "update-rc.d", 'echo "update-rc.d $*"')
    installs = f"if [[ $1 == install ]]; then : >'{bare_path}/dpkg-query.ssh'; exit 1; fi"
    program(bare_path / "apt-get", installs)
    log = set_up_as_root(copy, bare_path, tmp_path / "sbin")
    assert "update-rc.d ssh disable\nsetup: openssh-server, which the tests need, is not" in log


def open_to_everyone(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o777)
    for parent in folder.parents:
        if parent.name.startswith(("pytest-", "popen-")):  # the latter of pytest-xdist
            parent.chmod(0o755)
