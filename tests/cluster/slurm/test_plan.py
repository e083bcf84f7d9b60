"""Plans for Slurm: what is submitted for which flags and rows, without any Slurm."""

import dataclasses
import json
from pathlib import Path

import pytest

from cluster import agents, options
from cluster.backends import chosen as backends
from cluster.backends.slurm import looking, plan, queue, scripts
from cluster.backends.slurm.backend import SlurmBackend
from cluster.backends.slurm.model import SlurmPlan
from cluster.backends.slurm.queue import Task
from cluster.backends.ssh.backend import SshBackend
from cluster.inventory import hosts_csv
from cluster.model import Here
from cluster.record import Record
from tests.cluster.slurm.full_disk import recorded
from user_error import UserError

HERE = Here("/home/ann/x", "/venv/python", "/code/experiment.py", "ann", "", lambda ip: False)


def planned(*flags: str, csv: str = "") -> SlurmPlan:
    chosen, settings = options.parse(["--backend=slurm", "--logdir=logs/run", *flags])
    rows = hosts_csv.parse(csv.encode(), "hosts.csv", of_nodes=True) if csv else []
    return plan.make_plan(rows or agents.rows_of(chosen), settings, chosen, HERE)


def directives(made: SlurmPlan, name: str) -> list[str]:
    """What a job's script asks of Slurm."""
    [script] = [job.script for job in made.jobs if job.name == name]
    lines = [line for line in script.splitlines() if line.startswith("#SBATCH ")]
    return [line.removeprefix("#SBATCH ") for line in lines]


def test_learners_are_one_job_and_actors_an_array():
    made = planned(
        "--learners=2",
        "--actors=64",
        "--learner_resources=--partition=gpu --gpus-per-task=1",
        "--actor_resources=-p spot --cpus-per-task 4 --comment='two words'",
    )
    assert [job.name for job in made.jobs] == ["learners", "actors-0"]
    learners, actors = (directives(made, job.name) for job in made.jobs)
    assert {"--ntasks=2", "--partition=gpu", "--gpus-per-task=1", "--requeue"} <= {*learners}
    wanted = {"--array=0-63", "-p spot", "--cpus-per-task=4", "--comment='two words'"}
    assert wanted <= {*actors}
    assert made.links[:3] == (
        ("actor-0", "learner-0"), ("actor-1", "learner-1"), ("actor-2", "learner-0"),
    )  # fmt: skip
    assert made.processes[0].parts == ("learner-0", "learner-1")


def test_actors_in_step_fill_a_batch_together():
    made = planned("--learners=2", "--actors=8", "--algorithm=ppo", "--batch_size=8")
    assert "--envs_per_actor=2" in made.processes[-1].argv
    made = planned("--learners=2", "--actors=8", "--batch_size=8")
    assert not [one for one in made.processes[-1].argv if "envs_per_actor" in one]


def test_rows_name_nodes_and_each_node_has_an_array():
    csv = "job,ip,count,envs,env\nlearner,g1,,,\nactor,,2,,\nactor,c1,3,8,A=b\nactor,,1,,\n"
    made = planned(csv=csv)
    assert "--nodelist=g1" in directives(made, "learner-0")
    assert [job.processes for job in made.jobs[1:]] == [
        ("actor-0", "actor-1", "actor-5"), ("actor-2", "actor-3", "actor-4"),
    ]  # fmt: skip
    assert "--nodelist=c1" in directives(made, "actors-1")
    assert not [one for one in directives(made, "actors-0") if "nodelist" in one]
    on_c1 = made.processes[3]
    assert "--envs_per_actor=8" in on_c1.argv and ("A", "b") in on_c1.env


def test_all_in_one_job_if_asked():
    made = planned("--learners=2", "--actors=3", "--one_job", "--actor_resources=--mem=1G")
    [job] = made.jobs
    assert job.processes == ("learners", "actor-0", "actor-1", "actor-2")
    asked = directives(made, "all")
    assert asked.index("hetjob") < asked.index("--mem=1G")
    assert "srun --mpi=pmix --het-group=0" in " ".join(made.processes[0].argv)


def test_actors_of_one_job_are_on_the_node_that_all_of_them_name():
    csv = "job,ip,count\nlearner,,\nactor,c1,2\nactor,{},1\n"
    asked = directives(planned("--one_job", csv=csv.format("c1")), "all")
    assert "--nodelist=c1" in asked[asked.index("hetjob") :]
    with pytest.raises(UserError, match="^--one_job: column ip of .* is not the same for all"):
        planned("--one_job", csv=csv.format(""))


def test_mpi_uses_the_network_that_learners_are_found_in():
    network = "--mpirun_network=10.1.0.0/16"
    launcher = dict(planned("--learners=2", network).processes[0].env)
    for layer in ("btl", "oob"):
        name = f"OMPI_MCA_{layer}_tcp_if_include"
        assert launcher[name] == "10.1.0.0/16"
        assert name not in dict(planned("--learners=2").processes[0].env)
        assert name not in dict(planned("--learners=1", network).processes[0].env)


def test_a_run_inside_an_allocation_is_on_the_nodes_that_rows_name(monkeypatch: pytest.MonkeyPatch):
    both = "job,ip\nlearner,g1\nlearner,g2\nactor,c1\n"
    outside = " ".join(planned(csv=both).processes[0].argv)
    assert "--nodelist" not in outside and "-host" not in outside  # its job has these nodes only
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    inside = " ".join(planned(csv=both).processes[0].argv)
    assert "srun --mpi=pmix --nodelist=g1,g2 --nodes=2 " in inside
    assert " -host g1:1,g2:1 -np 2 " in inside
    [job] = planned(csv="job,ip\nlearner,g1\nactor,c1\n").jobs
    steps = [line for line in job.script.splitlines() if line.startswith("srun ")]
    assert ["--nodelist=g1 --nodes=1" in one for one in steps] == [True, False]
    assert ["--nodelist=c1 --nodes=1 --overcommit" in one for one in steps] == [False, True]


def test_a_run_inside_an_allocation_is_one_script_of_steps(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    made = planned("--learners=1", "--actors=3", "--one_job", "--actor_resources=--mem=1G")
    [job] = made.jobs
    steps = [line for line in job.script.splitlines() if line.startswith("srun ")]
    assert [line.count("--ntasks=1") for line in steps] == [1, 0] and "--mem=1G" in steps[1]
    assert "het" not in job.script and [those for _, those in made.steps] == [
        ("learner-0",), ("actor-0", "actor-1", "actor-2"),
    ]  # fmt: skip


def test_what_several_learners_ask_for_is_refused_inside_an_allocation(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    asked = "--learner_resources=--cpus-per-task=8"
    with pytest.raises(UserError, match=f"^{asked}: inside an allocation"):
        planned("--learners=2", "--actors=1", asked)
    [job] = planned("--learners=1", "--actors=1", asked).jobs
    assert "--job-name=impala-learner-0" in job.script and "--cpus-per-task=8" in job.script


def test_the_csv_of_a_run_on_slurm_is_not_read_as_that_of_the_hosts_of_the_one_before(
    tmp_path: Path,
):
    csv = tmp_path / "nodes.csv"
    csv.write_text("job,count\nlearner,\nactor,4\n")
    flags = ["--backend=slurm", f"--workers_csv_path={csv}", "--action=restart"]
    before, own = Record("id", "logs/run", "", (), ()), SlurmBackend(*options.parse(flags))
    with backends.of_run(before, *options.parse(flags), own) as its:
        assert isinstance(its, SshBackend)
    of_slurm = dataclasses.replace(before, backend="slurm")
    with backends.of_run(of_slurm, *options.parse(flags), own) as its:
        assert its is own


def test_jobs_run_in_a_container_if_asked(monkeypatch: pytest.MonkeyPatch):
    flags = ("--learners=1", "--actors=3", "--container=/images/impala 1")
    made = planned(*flags)
    for job in made.jobs:
        assert "--container='/images/impala 1'" in directives(made, job.name)
    assert "--container='/images/impala 1'" in directives(planned(*flags, "--one_job"), "all")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    with pytest.raises(UserError, match="inside an allocation"):
        planned(*flags)


def test_accounts_tell_how_jobs_ended_that_slurm_has_forgotten(tmp_path, monkeypatch):
    sacct = tmp_path / "sacct"
    lines = ["impala-learner-0-x|7|TIMEOUT", "impala-actors-0-x|8_0|CANCELLED by 0",
             "impala-actors-0-x|8_1|COMPLETED"]  # fmt: skip
    text = "\n".join(lines)
    sacct.write_text(f"#!/bin/sh\necho '{text}'\n")
    sacct.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    jobs = (("impala-learner-0-x", ("learner-0",)), ("impala-actors-0-x", ("actor-0", "actor-1")))
    record = Record("x", "logs/run", "", (), (), "slurm", jobs, "")
    ended = queue.accounts(record)
    assert ended == {"learner-0": "TIMEOUT", "actor-0": "CANCELLED", "actor-1": "COMPLETED"}
    states = [looking.judged(None, {}, ended[name]) for name in ("learner-0", "actor-0", "actor-1")]
    assert states == ["failed: TIMEOUT", "stopped", "done"]


def test_folders_may_have_any_name(monkeypatch: pytest.MonkeyPatch):
    made = planned("--learners=1", "--logdir=a b/50%")
    assert "--output='/home/ann/x/a b/50%%/cluster/slurm-learner-0.log'" in directives(
        made, "learner-0"
    )


def test_variables_that_change_slurms_commands_do_not_reach_them(monkeypatch: pytest.MonkeyPatch):
    for name in ("SQUEUE_NAMES", "SCANCEL_INTERACTIVE", "SBATCH_JOB_NAME", "SBATCH_PARTITION"):
        monkeypatch.setenv(name, "x")
    printed = queue.run("env")
    assert "SBATCH_PARTITION=x" in printed and "SBATCH_JOB_NAME" not in printed
    assert "SQUEUE" not in printed and "SCANCEL" not in printed


def test_the_transport_is_secure_unless_another_is_given(tmp_path: Path):
    def transport(*flags: str) -> set[str]:
        made = planned("--learners=1", "--actors=1", *flags)
        words = [word for one in made.processes for word in one.argv]
        return {word for word in words if word.startswith(("--transport", "--credentials"))}

    assert transport() == {
        "--transport=secure", "--credentials=logs/run/credentials/learner.pem",
        "--credentials=logs/run/credentials/actor.pem",
    }  # fmt: skip
    assert transport("--transport=tensorflow") == set()
    # Settings of a run name also what nobody has chosen.
    (tmp_path / "settings.json").write_text('{"transport": "tensorflow"}')
    file = f"--config={tmp_path}/settings.json"
    assert transport(file) == transport()
    assert transport(file, "--transport=tensorflow") == set()


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ([], "say what to start, by --learners=1 --actors=8, or by a CSV"),
        (["--learners=1", "--actor_resources=gpu"], "'gpu' is not an option of sbatch"),
        (["--learners=1", "--actor_resources=--array=0-9"], "the run itself decides --array"),
        (["--learners=1", "--learner_resources=-J x"], "the run itself decides -J"),
        (["--learners=1", "--learner_resources=-Jmine"], "the run itself decides -Jmine"),
        (["--learners=1", "--learner_resources=-n4"], "the run itself decides -n4"),
        (["--learners=1", "--actor_resources=-a 0-9"], "the run itself decides -a"),
        (["--learners=1", "--learner_resources=--job=x"], "the run itself decides --job"),
        (["--learners=1", "--learner_resources=--nodel n1"], "the run itself decides --nodel"),
        (["--learners=1", "--learner_resources=--comment='x"], "a quotation mark is not closed"),
        (["--learners=1", "--actors=1", "--level_name=a,b"], "--level_name names 2 levels, but"),
        (["--learners=-1"], "--learners=-1: must be 0 or more"),
        (["--learners=1", "--mpirun_network=ib0"], "--mpirun_network=ib0: expected a network"),
        (["--learners=2", "--algorithm=a3c"], "--algorithm=a3c exchange gradients without it"),
    ],
)
def test_a_wrong_flag_is_told(flags: list[str], told: str):
    with pytest.raises(UserError) as error:
        planned(*flags)
    assert told in str(error.value) and "\n" not in str(error.value)


def test_flags_of_slurm_are_refused_elsewhere():
    for given in (["--workers_csv_path=x", "--actors=3"], ["--actors=3", "--action=restart"]):
        with pytest.raises(UserError, match="--actors is for --backend=slurm"):
            options.parse(given)


@pytest.mark.parametrize(
    ("backend", "flag"),
    [
        ("slurm", "--notensorboard"),
        ("kubernetes", "--tmux_sess=mine"),
        ("slurm", "--accept_new_host_keys"),
        ("slurm", "--learner_image=mine"),
        ("ssh", "--actor_image=mine"),
        ("ssh", "--storage=1Gi"),
        ("kubernetes", "--log_megabytes=1"),
    ],
)
def test_a_flag_that_a_backend_would_ignore_is_refused(backend: str, flag: str):
    name = flag.partition("=")[0].replace("--no", "--")
    given = [f"--backend={backend}", "--workers_csv_path=x"]
    with pytest.raises(UserError, match=f"^{name} is for --backend="):
        options.parse([*given, flag])
    options.parse([*given, flag, "--action=status"])  # as a file may have it
    default = options.DEFAULTS[name.removeprefix("--")]
    options.parse([*given, f"{name}={default}"])


@pytest.mark.parametrize(
    ("csv", "told"),
    [
        ("job,ip,ssh_port\nlearner,n1,22\n", "hosts.csv:2: column ssh_port: leave it empty"),
        ("job,ip,cuda_visible_devices\nlearner,,0\n", "column cuda_visible_devices: leave it"),
        ("job,ip\nlearner,n 1\n", "'n 1' is neither an IP address nor the name of a host"),
        ("job,ip\nactor,n1\n", "there is no learner"),
        ("job,env\nlearner,A=1\nlearner,A=2\n", "need the same columns env and python"),
    ],
)
def test_a_wrong_row_is_told(csv: str, told: str):
    with pytest.raises(UserError, match=told.replace(".", "[.]")):
        planned(csv=csv)


@pytest.mark.parametrize(
    ("task", "kept", "told"),
    [
        (Task("1", "PENDING", "Priority"), {}, "waiting, Priority"),
        (Task("1", "RUNNING"), {"state": "running"}, "running"),
        # Written before the job was put back into the queue.
        (Task("1", "RUNNING"), {"state": "stopped"}, "starting"),
        (Task("1", "COMPLETING"), {"state": "running"}, "stopping"),
        (Task("1", "COMPLETED"), {"state": "ended", "exit_code": 0}, "done"),
        (Task("1", "FAILED"), {"state": "ended", "exit_code": 3}, "failed: 3"),
        (Task("1", "NODE_FAIL"), {"state": "running"}, "failed: NODE_FAIL"),
        (Task("1", "CANCELLED"), {"state": "running"}, "stopped"),
        (None, {"state": "running"}, "lost: Slurm has no job of it any more"),
        (None, {}, "not started"),
    ],
)
def test_the_scheduler_says_whether_a_process_lives(task: Task | None, kept: dict, told: str):
    assert looking.judged(task, kept) == told


@pytest.mark.parametrize(
    ("state", "kept", "told"),
    [
        ("PENDING", {}, ()),
        ("FAILED", {}, ("cancelled",)),
        ("RUNNING", {"run_id": "id", "state": "running", "keeper": [1, 1]}, ("from its log",)),
    ],
)
def test_a_log_of_the_former_run_is_not_shown_as_this_ones(
    state: str, kept: dict, told: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    jobs = (("impala-learner-0-id", ("learner-0",)),)
    record = dataclasses.replace(recorded(tmp_path), jobs=jobs)
    folder = looking.records_of(record)
    (folder / "learner-0.log").write_text("from its log\n")
    (folder / "slurm-learner-0.log").write_text("cancelled\n")  # both are appended to
    if kept:
        (folder / "learner-0.json").write_text(json.dumps(kept))
    monkeypatch.setattr(queue, "tasks", lambda _: {"learner-0": Task("1", state)})
    [one] = looking.look(record).parts
    assert one.last_lines == told and (one.silent_s == 0.0) == (not kept)


def test_accounts_say_what_squeue_has_forgotten():
    assert looking.judged(None, {"state": "running"}, "TIMEOUT") == "failed: TIMEOUT"
    assert looking.judged(None, {"state": "running"}, "COMPLETED") == "done"


def test_a_command_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(queue.SlurmFailed, match="there is no command sbatch here"):
        queue.run("sbatch")


def test_where_slurm_is_not_its_options_are_not_blamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.chdir(tmp_path)
    made = SlurmBackend(*options.parse(["--backend=slurm", "--learners=1", "--logdir=logs/run"]))
    made.prepare()
    assert not made.check()
    said = capsys.readouterr().out
    assert "give this command where sbatch works" in said and "_resources" not in said


def test_an_option_may_be_one_word_or_two():
    given = "--mem=1G --time 10:00 -A lab --exclusive -N2 --ntasks-per-node=2"
    assert scripts.resources(given, "x") == [
        "--mem=1G", "--time=10:00", "-A lab", "--exclusive", "-N2", "--ntasks-per-node=2",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("task", "processes", "job"),
    [("7", "abc", "7"), ("7_1", "b", "7"), ("7+0", "a", "7"), ("7+1", "bc", "7"), ("7_9", "", "7")],
)
def test_a_tasks_id_says_which_processes_it_runs(task: str, processes: str, job: str):
    assert queue._of_task(task, "abc") == processes and Task(task, "RUNNING").job == job


@pytest.mark.parametrize("step", ["7.0", "7_3.0", "7+1.0"])
def test_a_step_is_cancelled_alone_whatever_job_it_is_in(step: str):
    assert Task(step, "RUNNING").job == step
