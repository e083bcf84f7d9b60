"""What a check tells of this machine before anything is started."""

import ast
import dataclasses
import errno
import importlib.metadata
import io
import os
import pwd
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import threading
from pathlib import Path

import pytest

from cluster import record
from cluster.backends.ssh import checking, hosts
from cluster.backends.ssh.syncing import pack
from cluster.inventory.hosts_csv import Row
from cluster.model import Mpirun, Plan
from cluster.on_host import checks, reaching
from cluster.on_host.answers import answer
from cluster.this_machine import here
from tests import namespaces
from tests.cluster.conftest import ROOT, Frontend
from tests.cluster.local.runs import HEADER, ONE_EACH
from tests.cluster.plan.plans import plan, row

pytestmark = pytest.mark.xdist_group("local runs")

USES_NO_GPU = any(
    one.name.replace("_", "-") == "tensorflow-cpu" for one in importlib.metadata.distributions()
)


def test_a_port_that_is_used_is_told(frontend: Frontend):
    frontend.csv(*ONE_EACH)
    with socket.create_server(("", 18001)):
        told = frontend.run("check")
    assert told.returncode == 1
    assert "port 18001 cannot be used: Address already in use" in told.stdout
    assert frontend.run("check").stdout == "No problems found.\n"


def test_a_gpu_that_is_not_there_is_told(frontend: Frontend, tmp_path: Path):
    smi = tmp_path / "bin" / "nvidia-smi"
    smi.parent.mkdir()
    smi.write_text("#!/bin/sh\necho 'GPU 0: NVIDIA H200 (UUID: GPU-6f2b)'\n")
    smi.chmod(0o755)
    header = f"{HEADER},cuda_visible_devices"
    frontend.env["PATH"] = f"{smi.parent}:{frontend.env['PATH']}"
    frontend.csv(header, "learner,localhost,18001,0", "actor,localhost,19001,GPU-6f2b")
    told = frontend.run("check")
    assert "is requested" not in told.stdout
    # The packages are those of this machine.
    assert ("tensorflow-cpu uses no GPU; bin/setup --gpu" in told.stdout) == USES_NO_GPU
    assert told.returncode == USES_NO_GPU
    frontend.csv(header, 'learner,localhost,18001,"0,1"', "actor,localhost,19001,GPU-77")
    told = frontend.run("check")
    assert told.returncode == 1
    for gpu in ("1", "GPU-77"):
        assert f"GPU {gpu} is requested, but nvidia-smi lists 1" in told.stdout


def test_a_driver_that_hangs_is_not_waited_for(tmp_path, monkeypatch):
    """It lets no process end; a child that keeps the output open stands for that."""
    smi = tmp_path / "nvidia-smi"
    smi.write_text(f"#!/bin/sh\nsleep 600 &\necho $! > {tmp_path}/pid\nwait\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setitem(checks.WITHIN_S, "nvidia-smi", 1.0)
    try:
        [problem] = checks._gpus(["0"])
    finally:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    assert problem[0] == "GPU 0 is requested, but nvidia-smi lists 0"


def test_packages_must_be_those_of_the_lock_files(frontend: Frontend):
    shutil.copytree(ROOT / "requirements", frontend.folder / "requirements")
    frontend.csv(*ONE_EACH)
    assert frontend.run("check").returncode == 0
    lock = frontend.folder / "requirements" / "actor.txt"
    lock.write_text(lock.read_text().replace("gymnasium==", "gymnasium==9."))
    told = frontend.run("check")
    assert told.returncode == 1
    assert f"{sys.executable}: it has gymnasium " in told.stdout and ", expected 9." in told.stdout

    bare = sys._base_executable  # type: ignore[attr-defined]
    frontend.csv(f"{HEADER},python", f"learner,localhost,18001,{bare}")
    assert "it does not have tensorflow, it does not have dm-sonnet" in frontend.run("check").stdout
    frontend.csv(f"{HEADER},python", "learner,localhost,18001,nowhere/python")
    assert "nowhere/python cannot be run: No such file" in frontend.run("check").stdout


def test_a_python_may_be_a_name_in_the_path_or_lie_below_the_folder(
    frontend: Frontend, tmp_path: Path
):
    frontend.env["PATH"] = f"{Path(sys.executable).parent}:{frontend.env['PATH']}"
    python = tmp_path / "elsewhere" / "bin" / "own"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    frontend.csv(f"{HEADER},python", f"{ONE_EACH[1]},python3", f"{ONE_EACH[2]},bin/own")
    command = frontend.command("start", f"--workers_csv_path={frontend.folder}/hosts.csv")
    command.append(f"--logdir={frontend.logdir}")
    started = subprocess.run(
        command, cwd=tmp_path / "elsewhere", env=frontend.env, capture_output=True, check=False
    )
    assert started.returncode == 0, started.stdout
    assert frontend.run("stop", f"--logdir={frontend.logdir}").returncode == 0


def test_mpirun_and_its_ssh_must_be_here_where_learners_are_on_several_hosts(
    frontend: Frontend, tmp_path: Path
):
    (tmp_path / "empty").mkdir()
    bare = dataclasses.replace(frontend, env={**frontend.env, "PATH": str(tmp_path / "empty")})
    frontend.csv(
        f"{HEADER},ssh_port", "learner,localhost,18001,", "learner,127.0.0.1,18002,1",
    )  # fmt: skip
    told = bare.run("check")
    assert told.returncode == 1
    for text in ("there is no mpirun", "there is no ssh", "port 1: Connection refused"):
        assert text in told.stdout


def test_only_learners_under_mpirun_need_that_and_horovod():
    rows = [row("learner", f"10.0.0.{number}", 8001) for number in (1, 2)]

    def asked(rows: list[Row], *flags: str) -> list[tuple[bool, list[str]]]:
        made = plan(rows, *flags)
        return [
            (
                "horovod" in checking._packages(made, [one]),
                checking._commands(made, one.place),
            )
            for one in made.learners
        ]

    assert asked(rows) == [(True, ["mpirun"])] * 2
    assert asked(rows[:1]) == [(False, [])]
    assert asked(rows, "--algorithm=a3c") == [(False, [])] * 2
    agents = [
        dataclasses.replace(one, agent=name)
        for one, name in zip(rows, ("left", "right"), strict=True)
    ]
    assert asked(agents) == [(False, [])] * 2
    third = row("learner", "10.0.0.3", 8001, agent="right")
    assert asked([*agents, third]) == [(False, []), (True, ["mpirun"]), (True, ["mpirun"])]


def test_learners_that_answer_nothing_do_not_hold_up_the_look_at_the_others():
    deaf = [socket.create_server(("127.0.0.1", 0), backlog=0) for _ in range(5)]
    asked = [("127.0.0.1", one.getsockname()[1]) for one in deaf]
    free = socket.create_server(("127.0.0.1", 0))
    last = ("127.0.0.1", free.getsockname()[1])
    free.close()
    # Their queues are full: more calls are not even refused.
    calls = [socket.socket() for _ in range(4 * len(deaf))]
    try:
        for call, address in zip(calls, asked * 4, strict=True):
            call.setblocking(False)
            call.connect_ex(address)
        hears = threading.Thread(target=reaching.listen, args=({"expected": [(last[1], 1)]},))
        hears.start()
        assert reaching.reach({"addresses": [*asked, last]}) == {"unreached": asked}
        hears.join()
    finally:
        for one in (*calls, *deaf):
            one.close()


@pytest.mark.parametrize(
    ("now", "told"), [(0, "-95 s"), (35, ""), (100, ""), (170, ""), (200, "+90 s")]
)
def test_a_clock_is_wrong_if_it_was_at_no_time_within_a_minute(now: float, told: str):
    # Asked at 95, answered at 110: a slow answer says nothing about the clock.
    found = list(checking._clock({"asked": 95.0, "answered": 110.0, "now": now}))
    assert [what for what, _ in found] == ([f"its clock is {told} off"] if told else [])


def test_a_user_without_a_name_is_told_by_number(monkeypatch: pytest.MonkeyPatch):
    # As containers have them that run under some id.
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    assert here().username == "54321"


def test_a_user_without_a_name_is_checked_and_can_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def unknown(uid: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    (tmp_path / "busctl").write_text("#!/bin/sh\necho b true\n")
    (tmp_path / "busctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert list(checks._logout()) == []
    monkeypatch.delenv("HOME")
    asked = {"do": "stop", "run_id": "none", "folder": str(tmp_path), "logdir": "logs/run"}
    told = answer({**asked, "names": ["actor-0"], "grace_s": 0, "tmux": ""})
    assert told == {"stopped": [], "strays": 0, "killed": 0, "left": []}


def test_this_machine_goes_by_its_name_too():
    me = here()
    assert me.is_own_address(socket.gethostname()) and me.is_own_address("127.0.0.2")
    assert not me.is_own_address("192.0.2.99") and not me.is_own_address("elsewhere.example.com")


def test_a_machine_without_ipv6_has_no_address_of_that_kind(monkeypatch: pytest.MonkeyPatch):
    me = here()

    def refuses(*_: int) -> socket.socket:
        raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))

    monkeypatch.setattr(socket, "socket", refuses)
    assert not me.is_own_address("2001:db8::1")


@pytest.mark.skipif(bool(namespaces.missing()), reason=namespaces.missing())
def test_an_address_of_one_link_is_this_machines_with_the_name_of_its_interface():
    known = own_where("ip addr add fe80::5/64 dev lo", "fe80::5%lo", "fe80::6%lo", "fe80::5%x")
    assert known == [True, False, False]


@pytest.mark.skipif(bool(namespaces.missing()), reason=namespaces.missing())
def test_another_address_is_not_this_machines_even_where_it_may_be_bound_to():
    # As a machine that balances load is set up, so that it can take over addresses.
    bind = "sysctl -q -w net.ipv4.ip_nonlocal_bind=1 && ip addr add 10.1.2.3/24 dev lo"
    known = own_where(bind, "127.0.0.1", "127.0.0.2", "10.1.2.3", "10.1.2.4", "::1")
    assert known == [True, True, True, False, True]


def own_where(setup: str, *addresses: str) -> list[bool]:
    """Which addresses a machine takes for its own whose network is set up by a command."""
    asks = "from cluster.this_machine import here as h; m = h().is_own_address; "
    asks += f"print([m(ip) for ip in {addresses}])"
    inside = f'ip link set lo up && {setup} && exec {shlex.quote(sys.executable)} -c "{asks}"'
    done = subprocess.run(
        ["unshare", "-n", "sh", "-c", inside], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return ast.literal_eval(done.stdout)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be somebody else")
def test_a_host_that_ends_processes_at_logout_is_named(tmp_path: Path):
    (tmp_path / "busctl").write_text("#!/bin/sh\necho b $KILL\n")
    (tmp_path / "busctl").chmod(0o755)
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents:
        if parent.name.startswith(("pytest-", "popen-")):
            parent.chmod(0o755)
    asks = "from cluster.on_host.checks import _logout; print(list(_logout()))"
    for kill, told in (("true", "KillUserProcesses=yes"), ("false", "[]")):
        done = subprocess.run(
            ["python3", "-c", asks],
            cwd=ROOT, env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "KILL": kill},
            capture_output=True, text=True, user="nobody", check=False,
        )  # fmt: skip
        assert told in done.stdout, done.stderr


def test_64_hosts_are_asked_at_once_and_256_in_turns():
    together = threading.Barrier(hosts.AT_ONCE)

    def one(key: int) -> dict:
        together.wait(20)  # nobody goes on before so many are here
        return {"key": key}

    found = hosts.at_once(one, range(256))
    assert found == {key: {"key": key} for key in range(256)}


def test_files_of_a_run_are_private_whatever_the_umask(tmp_path: Path):
    plan = Plan((), (), (), Mpirun(), str(tmp_path))
    made = record.record_of(plan, "")
    before = os.umask(0)
    try:
        record.write(made, {str(tmp_path / "cluster" / "ssh_config"): "Host a\n"})
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "cluster").iterdir()}
    assert modes == {"ssh_config": 0o600, "run.json": 0o600}


def test_what_is_copied_belongs_to_whoever_unpacks_it(tmp_path: Path):
    (tmp_path / "cluster").mkdir()
    (tmp_path / "experiment.py").write_text("")
    if not os.geteuid():
        os.chown(tmp_path / "experiment.py", 12345, 12345)
    with tarfile.open(fileobj=io.BytesIO(pack(tmp_path))) as archive:
        owners = {(one.uid, one.gid, one.uname, one.gname) for one in archive}
    assert owners == {(0, 0, "", "")}


def test_files_that_an_editor_keeps_beside_are_neither_compared_nor_copied(tmp_path: Path):
    (tmp_path / "cluster").mkdir()
    (tmp_path / "cluster" / "plan.py").write_text("")

    def found() -> tuple[str, list[str]]:
        with tarfile.open(fileobj=io.BytesIO(pack(tmp_path))) as archive:
            return checks.version(tmp_path, ["cluster"]), archive.getnames()

    before = found()
    assert before[1] == ["cluster", "cluster/plan.py"]
    for folder in (tmp_path, tmp_path / "cluster"):
        (folder / ".#plan.py").symlink_to("ann@host.1234:99")  # as Emacs locks it
        (folder / "gone.py").symlink_to("nowhere")
        (folder / ".ipynb_checkpoints").mkdir()
        (folder / ".ipynb_checkpoints" / "plan.py").write_text("")
    os.mkfifo(tmp_path / "cluster" / "pipe.py")
    assert found() == before


def test_where_all_run_here_there_is_nothing_to_copy(frontend: Frontend):
    frontend.csv(*ONE_EACH)
    done = frontend.run("sync")
    assert done.returncode == 0 and "nothing to copy" in done.stdout
