"""How learners are started: alone, one by one, or together by mpirun."""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from cluster import mpi, show
from cluster.mpi_environment import ENVIRONMENT
from tests.cluster.plan.plans import flags_of, plan, row
from user_error import UserError


def test_one_learner_needs_no_mpirun():
    own = (("LD_LIBRARY_PATH", "/opt/lib"),)
    made = plan([row("learner", "localhost", 8001, cuda_visible_devices="1", env=own)])
    learner, tensorboard = made.processes
    assert learner.argv[:2] == ("/opt/python", "/opt/impala/experiment.py")
    assert learner.env == (*own, ("CUDA_VISIBLE_DEVICES", "1"))
    assert tensorboard.name == "tensorboard"
    assert tensorboard.env == (("TF_CPP_MIN_LOG_LEVEL", "3"), *own)


def test_learners_that_exchange_gradients_start_one_by_one_with_each_others_addresses():
    rows = [
        row("learner", "10.0.0.1", 8001),
        row("learner", "10.0.0.2", 8001),
        row("actor", "10.0.0.2", 9001, count=2),
    ]
    made = plan(rows, "--algorithm=a3c", "--restart_learners=2", "--logdir=logs/run")
    learners = [process for process in made.processes if process.job == "learner"]
    assert [learner.name for learner in learners] == ["learner-0", "learner-1"]
    assert all(learner.restarts == 2 and "mpirun" not in learner.argv for learner in learners)
    flags = [flags_of(learner.argv) for learner in learners]
    assert all(one["peers"] == "10.0.0.1:8001,10.0.0.2:8001" for one in flags)
    assert [one["logdir"] for one in flags] == ["logs/run", "logs/run/learner-1"]
    actors = [process for process in made.processes if process.job == "actor"]
    assert [flags_of(actor.argv)["logdir"] for actor in actors] == ["logs/run", "logs/run"]
    assert "peers" not in flags_of(actors[0].argv)
    (alone,) = [one for one in plan(rows[:1], "--algorithm=a3c").processes if one.job == "learner"]
    assert "peers" not in flags_of(alone.argv)


def test_several_learners_run_under_one_mpirun_and_know_their_actors():
    made = plan(
        [row("learner", "localhost", 8001), row("learner", "localhost", 8002),
         row("actor", "localhost", 9001), row("actor", "localhost", 9002),
         row("actor", "localhost", 9003)],
        "--seed=7",
    )  # fmt: skip
    (learners,) = [process for process in made.processes if process.job == "learner"]
    first, second = shlex.join(learners.argv).split(" : ")
    assert first.startswith("mpirun ") and " -H localhost,localhost " in first
    assert "--actor_hosts=localhost:9001,localhost:9003 " in first
    assert "--actor_hosts=localhost:9002 " in second
    assert "--seed=7 --job_name=learner --task=0" in first
    assert learners.parts == ("learner-0", "learner-1")


def test_learners_on_several_hosts_get_a_host_file_and_an_ssh_configuration():
    made = plan(
        [row("learner", "10.0.0.9", 8001),
         row("learner", "10.0.0.1", 8001, ssh_port=2201, ssh_username="ann", ssh_key="/k/id"),
         row("learner", "10.0.0.1", 8002, ssh_port=2202, ssh_username="bob", env=(("A", "1"),))],
        "--mpirun_network=10.0.0.0/24", "--logdir=logs/x",
    )  # fmt: skip
    (hosts_path, hosts), (config_path, ssh_config) = made.spread.files
    assert hosts_path == "/home/me/run/logs/x/cluster/mpirun_hosts"
    first, second = "impala-1-10-0-0-1", "impala-2-10-0-0-1"
    assert hosts == f"localhost slots=1\n{first} slots=1\n{second} slots=1\n"
    assert f"Host {first}\n  HostName 10.0.0.1\n  Port 2201\n  User ann\n" in ssh_config
    assert 'IdentityFile "/k/id"' in ssh_config
    mpirun = made.processes[0]
    assert mpirun.host.is_local
    command = shlex.join(mpirun.argv)
    assert f"-hostfile {hosts_path}" in command and f"'ssh -F {config_path}'" in command
    assert "btl_tcp_if_include 10.0.0.0/24" in command
    assert "impala env A=1 .venv/bin/python experiment.py " in command


# What mpirun makes of an address, and what starts a learner there in place of ssh.
ADDRESSES = {
    "h": "impala-0-h",
    "gpu1.example.com": "impala-1-gpu1-example-com",
    "2001:db8::1": "impala-2-2001-db8-1",
    "127.0.0.1": "impala-3-127-0-0-1",
    "192.0.2.7": "192.0.2.7",
}
AGENT = """#!/bin/sh
echo "$1" >>started
exit 1
"""


@pytest.mark.skipif(not shutil.which("mpirun"), reason="needs mpirun")
def test_mpirun_asks_its_ssh_for_each_host_by_the_name_that_the_configuration_knows(tmp_path: Path):
    rows = [row("learner", ip, 8001, ssh_port=2201) for ip in ADDRESSES]
    (_, hosts), (_, ssh_config) = plan(rows).spread.files
    assert [line.split()[0] for line in hosts.splitlines()] == list(ADDRESSES.values())
    for ip, name in ADDRESSES.items():
        assert f"Host {name}\n  HostName {ip}\n" in ssh_config
        (tmp_path / "hosts").write_text(f"{name} slots=1\n")
        (tmp_path / "agent").write_text(AGENT)
        (tmp_path / "agent").chmod(0o755)
        (tmp_path / "started").write_text("")
        agent = ("-hostfile", "hosts", "-mca", "plm_rsh_agent", str(tmp_path / "agent"))
        subprocess.run(
            ["mpirun", *agent, "-H", name, "-np", "1", "true"],
            cwd=tmp_path, env={**os.environ, **ENVIRONMENT}, capture_output=True, check=False,
        )  # fmt: skip
        assert (tmp_path / "started").read_text() == f"{name}\n"


def test_mpirun_reaches_learners_by_password_through_connections_that_are_open_before():
    rows = [
        row("learner", "h", 8001, ssh_username="ann", ssh_password="hush"),
        row("learner", "h2", 8002, ssh_username="bob", ssh_key="/k/100%id"),
        row("learner", "h3", 8003, ssh_username="cid"),
    ]
    spread = plan(rows).spread
    assert [name for name, _ in spread.by_password] == ["impala-0-h"]
    first, second, third = spread.files[1][1].split("\n\n")
    # Filled in when the run has an id: OpenSSH before 8.4 expands no variables there.
    assert f"ControlPath /tmp/impala-ssh-{mpi.RUN_ID}-0" in first and "$" not in first
    assert 'IdentityFile "/k/100%%id"' in second and "ControlPath" not in second + third
    asked = plan(rows, "--ask_ssh_password").spread.by_password
    assert [name for name, _ in asked] == ["impala-0-h", "impala-2-h3"]
    assert "hush" not in repr(spread)
    # By hand one logs in first, and mpirun finds that connection.
    shown = "\n".join(show.commands(plan(rows)))
    login = "-f -N -o ControlMaster=yes -o BatchMode=no impala-0-h\n"
    assert shown.index(login) < shown.index(" mpirun ")
    assert shown.count("IMPALA_RUN=by-hand ") == 1
    assert "ControlPath /tmp/impala-ssh-by-hand-0\n" in shown


def test_learners_on_one_remote_host_run_under_its_own_mpirun():
    made = plan([row("learner", "h", port, ssh_username="root") for port in (8001, 8002)])
    assert str(made.processes[0].host) == "root@h" and not made.spread.files
    assert dict(made.processes[0].env)["OMPI_ALLOW_RUN_AS_ROOT"] == "1"


def test_learners_in_two_folders_of_one_host_each_run_in_their_own():
    rows = [row("learner", "h", port, remote_dir=f"d{port}") for port in (8001, 8002)]
    (mpirun,) = [process for process in plan(rows).processes if process.parts]
    first, second = shlex.join(mpirun.argv).split(" : ")
    assert mpirun.place.folder == "d8001" and " sh -c " not in first
    assert second.count(" sh -c ") == 1 and "' d8002 .venv/bin/python" in second


@pytest.mark.parametrize("logdir", ["logs/a b", "logs/a:b"])
def test_a_folder_that_mpiruns_ssh_cannot_take_is_refused(logdir: str):
    rows = [row("learner", name, 8001, ssh_username="ann") for name in ("h", "h2")]
    with pytest.raises(UserError, match="has a space or a colon in it"):
        plan(rows, f"--logdir={logdir}")
