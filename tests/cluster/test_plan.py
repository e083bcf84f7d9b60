"""The plan: who is linked to whom, what is started where, and how it is shown."""

import dataclasses
import errno
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import run_experiment_mm_raw
from cluster import frontend, mpi, options, show
from cluster.inventory import hosts_csv
from cluster.inventory.columns import host_of
from cluster.inventory.hosts_csv import Row
from cluster.model import LOCAL, Here, Host, Plan
from cluster.mpi_environment import ENVIRONMENT
from cluster.plan import make_plan
from trainer.settings import config
from user_error import UserError

ROOT = Path(__file__).parents[2]
EXAMPLE = "sandbox/local_workers_example.csv"
HERE = Here(
    "/home/me/run", "/opt/python", "/opt/impala/experiment.py", "me", "/home/me/.ssh/known_hosts",
    lambda ip: ip in ("localhost", "127.0.0.1", "10.0.0.9"),
)  # fmt: skip


def row(job: str, ip: str, port: int, **other: object) -> Row:
    return Row(line=port, job=job, ip=ip, tf_port=port, **other)  # type: ignore[arg-type]


def plan(rows: list[Row], *flags: str, numbers: dict[tuple[Host, int], int] | None = None) -> Plan:
    chosen, settings = options.parse(["--workers_csv_path=x", *flags])
    return make_plan(rows, settings, chosen, HERE, numbers)


def flags_of(argv: tuple[str, ...]) -> dict[str, str]:
    return dict(part[2:].split("=", 1) for part in argv if part.startswith("--"))


def test_actors_are_linked_round_robin_in_file_order():
    made = plan(
        [row("actor", "localhost", 9001), row("learner", "localhost", 8001),
         row("learner", "localhost", 8002), row("actor", "localhost", 9002, count=2)],
    )  # fmt: skip
    assert [actor.learner for actor in made.actors] == [0, 1, 0]
    actors = [process for process in made.processes if process.job == "actor"]
    hosts = [flags_of(actor.argv)["learner_host"] for actor in actors]
    assert hosts == ["localhost:8001", "localhost:8002", "localhost:8001"]


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


def test_more_levels_than_actors_are_refused_and_the_level_left_out_is_named():
    rows = [row("learner", "localhost", 8001), row("actor", "localhost", 9001, count=2)]
    levels = "PongNoFrameskip-v4,BreakoutNoFrameskip-v4"
    assert len(plan(rows, f"--level_name={levels}").actors) == 2
    with pytest.raises(UserError) as error:
        plan(rows, f"--level_name={levels},QbertNoFrameskip-v4")
    assert "names 3 levels, but x has 2 actors" in str(error.value)
    assert "QbertNoFrameskip-v4 would never be played" in str(error.value)


def test_actors_that_keep_their_numbers_must_play_every_level():
    rows = [row("learner", "localhost", 8001), row("actor", "localhost", 9001, count=2)]
    flag = "--level_name=PongNoFrameskip-v4,BreakoutNoFrameskip-v4"
    kept = {(LOCAL, 9001): 0, (LOCAL, 9002): 2}
    with pytest.raises(UserError, match="BreakoutNoFrameskip-v4 would never be played"):
        plan(rows, flag, numbers=kept)


def test_actors_in_step_fill_a_batch_together_unless_a_row_says_otherwise():
    rows = [
        row("learner", "10.0.0.1", 8001),
        row("actor", "10.0.0.2", 9001, count=3),
        row("actor", "10.0.0.3", 9001, envs=7),
    ]
    made = plan(rows, "--algorithm=ppo", "--batch_size=8")
    actors = [flags_of(one.argv) for one in made.processes if one.job == "actor"]
    assert [one["envs_per_actor"] for one in actors] == ["2", "2", "2", "7"]


def test_actors_know_how_many_share_their_host():
    made = plan(
        [row("learner", "10.0.0.9", 8001), row("actor", "10.0.0.9", 9001, count=2),
         row("actor", "10.0.0.5", 9001)],
    )  # fmt: skip
    shared = [flags_of(process.argv)["actors_on_host"] for process in made.processes
              if process.job == "actor"]  # fmt: skip
    assert shared == ["2", "2", "1"]


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


def test_one_learner_needs_no_mpirun():
    made = plan([row("learner", "localhost", 8001, cuda_visible_devices="1")])
    learner, tensorboard = made.processes
    assert learner.argv[:2] == ("/opt/python", "/opt/impala/experiment.py")
    assert learner.env == (("CUDA_VISIBLE_DEVICES", "1"),)
    assert tensorboard.name == "tensorboard"


def test_a_row_decides_environments_and_environment_of_its_actor_and_hides_gpus():
    made = plan(
        [row("learner", "localhost", 8001),
         row("actor", "localhost", 9001, envs=5, env=(("A", "b c"),))],
        "--envs_per_actor=3",
    )  # fmt: skip
    actor = made.processes[1]
    assert [flag for flag in actor.argv if "envs_per_actor" in flag] == ["--envs_per_actor=5"]
    assert actor.env == (("A", "b c"), ("CUDA_VISIBLE_DEVICES", "-1"))


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


def test_a_port_is_used_once_on_this_machine_by_whatever_address_it_is_called():
    with pytest.raises(UserError, match="x:2: column tf_port: port 1 is used by line 1: localhost"):
        plan([Row(1, "learner", "localhost", 1), Row(2, "actor", "10.0.0.9", 1)])


def test_an_actor_elsewhere_cannot_be_linked_to_localhost():
    with pytest.raises(
        UserError, match="x:8001: column ip: learner-0 is at localhost, where actor-0"
    ):
        plan([row("learner", "localhost", 8001), row("actor", "10.0.0.1", 9001)])


def test_commands_are_quoted_once_for_each_shell_and_hold_no_password():
    made = plan(
        [row("learner", "10.0.0.9", 8001),
         row("actor", "h", 9001, ssh_username="ann", ssh_password="hush", remote_dir="a b$(id)",
             env=(("A", "$(touch x);' &&  y"),))],
    )  # fmt: skip
    command = show.command(made.processes[1])
    *ssh, there = shlex.split(command)
    assert ssh == ["ssh", "-p", "22", "ann@h"]
    assert shlex.split(there)[:5] == [
        "cd", "a b$(id)", "&&", "A=$(touch x);' &&  y", "CUDA_VISIBLE_DEVICES=-1",
    ]  # fmt: skip
    assert "hush" not in "\n".join(show.commands(made)) + repr(made)


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--job_name=actor"], "there is no flag --job_name"),
        (["--workers_csv"], "Did you mean --workers_csv_path"),
        ([], "--workers_csv_path is not given"),
        (["--action=pause"], "invalid choice: 'pause'"),
        (["--workers_csv_path=x", "--stop_grace_s=-1"], "--stop_grace_s=-1.0: must be 0 or more"),
        (["--workers_csv_path=x", "--discounting=2"], "--discounting=2.0: must be 1 or less"),
        (["--workers_csv_path=x", "--tmux_sess=a:b"], "--tmux_sess=a:b"),
        (["--workers_csv_path=x", "--tmux_sess=#(id)"], "--tmux_sess=#(id)"),
        (["--workers_csv_path=x", "--connect_timeout_s=1e12"], "must be 3600 or less"),
        (["--action=stop", "--dry_run"], "--dry_run is for --action=start or check or sync or"),
        (["--action=stop", "--name=actor-0"], "--name is for --action=logs, not for --action=stop"),
        (["--workers_csv_path=x", "--follow"], "--follow is for --action=status or logs, not for"),
    ],
)
def test_a_wrong_flag_is_told(flags: list[str], told: str):
    with pytest.raises(UserError) as error:
        options.parse(flags)
    assert told in str(error.value)


def test_secure_processes_are_given_the_file_of_their_job_and_others_none():
    rows = [row("learner", "localhost", 8001), row("actor", "localhost", 9001)]
    made = plan(rows, "--transport=secure", "--logdir=logs/x")
    learner, actor = (flags_of(process.argv) for process in made.processes[:2])
    assert learner["credentials"] == "logs/x/credentials/learner.pem"
    assert actor["credentials"] == "logs/x/credentials/actor.pem"
    assert learner["transport"] == actor["transport"] == "secure"
    assert "credentials" not in str([process.argv for process in plan(rows).processes])
    with pytest.raises(UserError, match="there is no flag --credentials"):
        plan(rows, "--credentials=x")


members = st.lists(
    st.tuples(st.sampled_from(["h1", "h2", "h3"]), st.integers(1, 4)), min_size=1, max_size=12
)


@given(members, members)
def test_each_actor_is_linked_once_loads_are_even_and_ports_never_clash(
    learner_hosts: list[tuple[str, int]], actor_hosts: list[tuple[str, int]]
):
    rows, port = [], 1000
    for job, hosts in (("learner", learner_hosts), ("actor", actor_hosts)):
        for host, count in hosts:
            rows.append(row(job, host, port, count=count if job == "actor" else 1))
            port += 10
    made = plan(rows)
    assert len(made.actors) == sum(count for _, count in actor_hosts)
    loads = [
        sum(actor.learner == index for actor in made.actors) for index in range(len(made.learners))
    ]
    assert max(loads) - min(loads) <= 1 and sum(loads) == len(made.actors)
    addresses = [member.address for member in (*made.learners, *made.actors)]
    assert len(set(addresses)) == len(addresses)
    names = [process.name for process in made.processes]
    assert len(set(names)) == len(names)
    named = [part for argv in made.processes for part in argv.argv if "actor_hosts" in part]
    linked = [address for flag in named for address in flag.split("=")[1].split(",") if address]
    assert sorted(linked) == sorted(actor.address for actor in made.actors)


any_rows = st.lists(
    st.tuples(
        st.sampled_from(["learner", "actor", "actor"]),
        st.sampled_from(["localhost", "127.0.0.1", "10.0.0.9", "h1"]),
        st.integers(1, 60),
        st.integers(1, 4),
    ),
    min_size=1,
    max_size=10,
)


@given(any_rows)
def test_ports_never_clash_in_what_the_reader_lets_through(given_rows: list):
    lines = ["job,ip,tf_port,count"]
    ports: list[tuple[str, int]] = []
    for job, ip, port, count in given_rows:
        many = count if job == "actor" else 1
        lines.append(f"{job},{ip},{port},{many}")
        host = "localhost" if ip == "127.0.0.1" else ip
        ports += [(host, one) for one in range(port, port + many)]
    sound = len(set(ports)) == len(ports) and any(job == "learner" for job, *_ in given_rows)
    try:
        read = hosts_csv.parse("\n".join(lines).encode(), "f")
    except UserError:
        assert not sound
        return
    assert sound
    members = [(host_of(one.ip), port) for one in read for port in one.ports]
    assert members == ports


def run(*flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "run_experiment_mm_raw.py", *flags]
    return subprocess.run(
        command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=60
    )


def test_a_dry_run_shows_all_of_256_actors(tmp_path: Path):
    hosts = tmp_path / "hosts.csv"
    lines = ["job,ip,tf_port", "learner,10.0.0.1,8001", "learner,10.0.0.2,8001"]
    lines += [f"actor,10.0.{n // 8 + 1}.1,{9000 + n}" for n in range(256)]
    hosts.write_text("\n".join(lines))
    done = run(f"--workers_csv_path={hosts}", "--dry_run")
    assert done.returncode == 0 and "actor-255" in done.stdout


def test_help_answers_and_nothing_imports_tensorflow():
    assert "--workers_csv_path" in run("--help").stdout
    files = (ROOT / "cluster").rglob("[a-z]*.py")
    modules = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in files]
    check = f"import {', '.join(modules)}, sys; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.call([sys.executable, "-c", check], cwd=ROOT) == 0


def test_problems_of_the_csv_are_lines_with_exit_code_2(tmp_path: Path):
    hosts = tmp_path / "hosts.csv"
    hosts.write_text("job,ip,tf_port\nworker,h,1\nactor,h,x\n")
    done = run(f"--workers_csv_path={hosts}", "--dry_run")
    assert done.returncode == 2 and done.stdout == ""
    assert len(done.stderr.splitlines()) == 2


def test_what_cannot_be_written_is_one_line(monkeypatch, capsys):
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "records/stopped")

    monkeypatch.setattr(frontend, "run", full)
    assert run_experiment_mm_raw.main([]) == 2
    said = capsys.readouterr().err
    assert said.endswith(": records/stopped: No space left on device\n") and said.count("\n") == 1


def test_flags_reach_every_process_as_they_were_given():
    given = ["--level_name=A-v0", "--learning_rate=0.001", "--epsilon=1e-08"]
    made = plan([row("learner", "localhost", 8001), row("actor", "localhost", 9001)], *given)
    for process in made.processes[:2]:
        assert process.argv[2:5] == tuple(given)
        kept = [flag for flag in process.argv[2:] if flag.partition("=")[0] in
                {f"--{field.name}" for field in config.fields()} - {"--job_name"}]  # fmt: skip
        assert config.parse(kept).learning.learning_rate == 0.001


@pytest.mark.parametrize("logdir", ["logs/a b", "logs/a:b"])
def test_a_folder_that_mpiruns_ssh_cannot_take_is_refused(logdir: str):
    rows = [row("learner", name, 8001, ssh_username="ann") for name in ("h", "h2")]
    with pytest.raises(UserError, match="has a space or a colon in it"):
        plan(rows, f"--logdir={logdir}")


AGENTS = [
    row("learner", "localhost", 8001, agent="left"),
    row("learner", "localhost", 8002, agent="right"),
    row("learner", "localhost", 8003, agent="right"),
    row("actor", "localhost", 9001, count=2),
]


def test_learners_of_an_agent_are_one_team_and_actors_are_linked_to_one_of_each():
    made = plan(AGENTS, "--logdir=logs/run")
    learning = {one.name: one for one in made.processes if one.job == "learner"}
    assert list(learning) == ["learner-0", "learners-right"]
    assert learning["learners-right"].parts == ("learner-1", "learner-2")
    assert learning["learners-right"].argv.count("--agent=right") == 2
    assert flags_of(learning["learner-0"].argv)["agent"] == "left"
    assert all("--agents=left,right" in one.argv for one in learning.values())
    assert [actor.linked for actor in made.actors] == [(0, 1), (0, 2)]
    actors = [flags_of(one.argv) for one in made.processes if one.job == "actor"]
    assert [one["learner_host"] for one in actors] == [
        "left=localhost:8001,right=localhost:8002",
        "left=localhost:8001,right=localhost:8003",
    ]
    assert {one["logdir"] for one in actors} == {"logs/run"}


def test_an_agents_learners_on_several_hosts_have_files_of_their_own():
    spread = [
        row("learner", f"10.0.0.{number}", 8000 + number, agent="left" if number < 3 else "right")
        for number in range(1, 5)
    ]
    files = [path.rpartition("/")[2] for path, _ in plan(spread).spread.files]
    assert files == [
        "mpirun_hosts_left", "ssh_config_left", "mpirun_hosts_right", "ssh_config_right",
    ]  # fmt: skip
    with pytest.raises(UserError, match="need logins by key"):
        plan([dataclasses.replace(one, ssh_password="x") for one in spread])


def test_agents_of_the_flag_and_of_the_csv_must_be_the_same():
    assert "--agents=right,left" in plan(AGENTS, "--agents=right,left").processes[0].argv
    nobody = [dataclasses.replace(one, agent="") for one in AGENTS]
    for rows, flag, text in (
        (AGENTS, "--agents=left,middle", "names left, right; expected the same agents"),
        ([*AGENTS, row("learner", "localhost", 8009)], "", "x:8009: column agent: is empty"),
        (nobody, "--agents=a,b", "give it a column"),
        (AGENTS, "--product=inner", "2 agents and 1 level"),
    ):
        with pytest.raises(UserError) as error:
            plan(rows, *([flag] if flag else []))
        assert text in str(error.value) and "\n" not in str(error.value)


def test_agents_are_of_learners_only():
    text = b"job,ip,tf_port,agent\nlearner,localhost,8001,a b\nactor,localhost,9001,left\n"
    with pytest.raises(UserError) as error:
        hosts_csv.parse(text, "x")
    assert "x:2: column agent: 'a b' is not a name" in str(error.value)
    assert "x:3: column agent: left is given for an actor" in str(error.value)


def test_the_example_of_two_agents_can_be_planned():
    made = plan(hosts_csv.read(ROOT / "sandbox" / "two_agents_example.csv"))
    assert [one.row.agent for one in made.learners] == ["left", "right"]
