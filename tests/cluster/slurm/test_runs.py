"""Runs on a real Slurm of three nodes on this machine, with a quick stand-in for experiment.py."""

import dataclasses
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.conftest import copy_project, wait_for
from tests.cluster.slurm import daemons
from tests.cluster.slurm.daemons import Slurm

pytestmark = [
    pytest.mark.skipif(bool(daemons.missing()), reason=daemons.missing()),
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("slurm"),
]


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    made = Slurm(3)
    yield made
    made.close()


@dataclasses.dataclass
class Frontend:
    """The frontend in a project folder that all nodes share."""

    folder: Path
    slurm: Slurm

    def command(self, action: str, *flags: str) -> list[str]:
        program = str(self.folder / "run_experiment_mm_raw.py")
        return [sys.executable, program, f"--action={action}", "--logdir=logs/run", *flags]

    def begin(self, action: str, *flags: str) -> subprocess.Popen:
        env = {**os.environ, **self.slurm.env}
        return subprocess.Popen(self.command(action, *flags), cwd=self.folder, env=env)

    def run(self, action: str, *flags: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(action, *flags),
            cwd=self.folder,
            env={**os.environ, **self.slurm.env, **env},
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )

    def start(self, *flags: str) -> str:
        done = self.run("start", "--backend=slurm", *flags)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def states(self) -> dict[str, tuple[str, str]]:
        """Node and state of each process, as status shows them."""
        rows = [line.split("  ") for line in self.run("status").stdout.splitlines()]
        words = [[word.strip() for word in row if word.strip()] for row in rows]
        return {row[0]: (row[1], row[2]) for row in words if row and "-" in row[0] and row[2:]}

    def log(self, name: str) -> str:
        return (self.folder / "logs" / "run" / "cluster" / f"{name}.log").read_text()

    def job(self, kind: str) -> str:
        """The id of a job of the run, without the number of a task or part."""
        listed = self.slurm.run("squeue", "-h", "-o", "%i %j").stdout.splitlines()
        [found] = {re.split("[_+ ]", line)[0] for line in listed if f"impala-{kind}-" in line}
        return found


@pytest.fixture
def frontend(tmp_path: Path, slurm: Slurm) -> Iterator[Frontend]:
    copy_project(tmp_path / "project")
    made = Frontend(tmp_path / "project", slurm)
    yield made
    if (made.folder / "logs" / "run" / "cluster" / "run.json").exists():
        made.run("stop", "--stop_grace_s=1")
    assert slurm.run("squeue", "-h").stdout == ""


def test_two_learners_and_six_actors_start_are_seen_and_stop(frontend: Frontend):
    said = frontend.start("--learners=2", "--actors=6", "--learner_resources=--nodes=2")
    assert "Started 2 learners and 6 actors." in said
    assert " --action=stop" in said
    wait_for(lambda: "actor 5 reached" in frontend.run("logs").stdout)
    states = wait_for(lambda: _all_run(frontend, 8))
    assert frontend.run("status").returncode == 0
    only = frontend.run("logs", "--name=learner-1").stdout.splitlines()
    assert only and all(line.startswith("learner-1 ") for line in only)
    # A second start is refused; a restart that cannot succeed changes nothing.
    again = frontend.run("start", "--backend=slurm", "--learners=1")
    assert again.returncode == 2 and "a run is already running there" in again.stderr
    wrong = ("--backend=slurm", "--learners=1", "--learner_resources=--partition=nosuch")
    assert frontend.run("restart", *wrong).returncode == 1
    assert frontend.states() == states
    stopped = frontend.run("stop")
    assert stopped.stdout == "Stopped 2 learners and 6 actors.\n"
    assert frontend.slurm.run("squeue", "-h").stdout == ""
    assert {state for _, state in frontend.states().values()} == {"stopped"}
    assert "Nothing to stop" in frontend.run("stop").stdout


@pytest.mark.parametrize("nodes", [("n1", "n1"), ("n1", "n2")], ids=["one node", "two nodes"])
def test_two_learners_of_a_csv_start_by_mpirun_where_slurm_has_no_pmix(
    frontend: Frontend, tmp_path: Path, nodes: tuple[str, str]
):
    srun = tmp_path / "bin" / "srun"
    srun.parent.mkdir()
    srun.write_text(
        f'#!/bin/sh\n[ "$1" != --mpi=list ] || {{ echo none; exit; }}\n'
        f'exec {shutil.which("srun")} "$@"\n'
    )
    srun.chmod(0o755)
    (frontend.folder / "nodes.csv").write_text(
        "job,ip\nactor,n3\n" + "".join(f"learner,{node}\n" for node in nodes)
    )
    path = {"PATH": f"{srun.parent}:{os.environ['PATH']}"}
    flags = ("--backend=slurm", "--workers_csv_path=nodes.csv")
    started = frontend.run("start", *flags, **path)
    assert started.returncode == 0, started.stdout + started.stderr
    wait_for(lambda: "actor 0 reached" in frontend.log("actor-0"))
    told = frontend.run("logs").stdout
    assert "is rank 0 of 2" in told and "is rank 1 of 2" in told
    assert [one for _, one in _processes() if one.split(" ")[0].endswith("mpirun")]
    assert frontend.run("stop").stdout == "Stopped 2 learners and 1 actor.\n"
    assert not [one for _, one in _processes() if f"{frontend.folder}/experiment.py" in one]


def test_nodes_of_a_csv_and_what_happens_to_their_jobs(frontend: Frontend):
    (frontend.folder / "nodes.csv").write_text(
        "job,ip,count\nlearner,n1,\nactor,n2,2\nactor,n3,1\nactor,,1\n"
    )
    frontend.start("--workers_csv_path=nodes.csv")
    states = frontend.states()
    nodes = [states[name][0] for name in ("learner-0", "actor-0", "actor-1", "actor-2")]
    assert nodes == ["n1", "n2", "n2", "n3"]
    wait_for(lambda: "actor 0 reached" in frontend.log("actor-0"))

    # An actor that is cancelled is nothing to the others.
    frontend.slurm.run("scancel", f"{frontend.job('actors-0')}_1")
    wait_for(lambda: frontend.states()["actor-1"][1] == "stopped")
    assert frontend.states()["actor-0"][1] == "running"

    # A learner that is put back into the queue is found again by its actors.
    job = frontend.job("learner-0")
    frontend.slurm.run("scontrol", "requeue", job)
    wait_for(lambda: frontend.states()["learner-0"][1].startswith("waiting"))
    _runs_again(frontend, job)
    wait_for(lambda: "learner-0 has moved" in frontend.log("actor-0"))

    # So is one that another job has pushed out, and one whose time is nearly up.
    other = frontend.slurm.run(
        *("sbatch", "--parsable", "--partition=urgent", "--nodelist=n1", "--exclusive"),
        *("--output=/dev/null", "--wrap=sleep 60"),
    ).stdout.strip()
    wait_for(lambda: frontend.states()["learner-0"][1].startswith("waiting"))
    frontend.slurm.run("scancel", other)
    _runs_again(frontend, job)
    frontend.slurm.run("scancel", "--batch", "--signal=USR1", job)
    wait_for(lambda: frontend.states()["learner-0"][1].startswith("waiting"))
    wait_for(lambda: "the time limit is near; requeued" in frontend.log("learner-0"))

    # A node that is set down takes its actors back into the queue.
    frontend.slurm.run("scontrol", "update", "nodename=n3", "state=down", "reason=test")
    wait_for(lambda: frontend.states()["actor-2"][1].startswith("waiting"))
    frontend.slurm.run("scontrol", "update", "nodename=n3", "state=resume")
    assert frontend.run("stop").stdout == "Stopped 1 learner and 3 actors.\n"


def _all_run(frontend: Frontend, count: int) -> dict:
    """The states of so many processes that all run; nothing before."""
    states = frontend.states()
    kinds = {state for _, state in states.values()}
    return states if len(states) == count and kinds == {"running"} else {}


def _runs_again(frontend: Frontend, job: str) -> None:
    """Waits until a job that was put back runs, without the two minutes that Slurm gives it.

    Those are there for a reason: a job that starts within the second in which it was stopped
    is taken for the one that was, and fails. So it starts two seconds after all has ended.
    """
    wait_for(lambda: frontend.slurm.run("squeue", "-h", "-j", job, "-o", "%t").stdout == "PD\n")
    wait_for(lambda: frontend.slurm.run("squeue", "-h", "-t", "CG").stdout == "")
    time.sleep(2)
    frontend.slurm.run("scontrol", "update", f"jobid={job}", "starttime=now")
    wait_for(lambda: frontend.states()["learner-0"][1] == "running")


def test_a_learner_that_is_killed_starts_again_if_asked(frontend: Frontend):
    frontend.start("--learners=1", "--restart_learners=1")
    for killed in (1, 2):
        line = f"{frontend.folder}/experiment.py"
        learners = [one for one in _processes() if one[1].split(" ")[1:2] == [line]]
        for pid, _ in learners:
            os.kill(pid, 9)
        if killed == 1:
            wait_for(lambda: frontend.log("learner-0").count("is rank") == 2)
    wait_for(lambda: frontend.states()["learner-0"][1] == "failed: 137")
    assert frontend.run("status").returncode == 1


def test_jobs_of_a_frontend_that_was_killed_are_found(frontend: Frontend):
    flags = ("--backend=slurm", "--learners=1", "--actors=2", "--level_name=Late")
    with frontend.begin("start", *flags) as starting:
        wait_for(lambda: frontend.slurm.run("squeue", "-h").stdout)
        starting.kill()
    assert frontend.states()["learner-0"][1].split(",")[0] in ("waiting", "starting", "running")
    assert frontend.run("stop").stdout.startswith("Stopped 1 learner")


def _processes() -> Iterator[tuple[int, str]]:
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes()
        except OSError:
            continue
        yield int(process.name), line.replace(b"\0", b" ").decode()


def test_all_in_one_heterogeneous_job(frontend: Frontend):
    frontend.start("--learners=1", "--actors=3", "--one_job")
    wait_for(lambda: "actor 2 reached" in frontend.run("logs").stdout)
    wait_for(lambda: _all_run(frontend, 4))
    # As before a time limit: Slurm warns the script, which passes it on to the learners' keeper.
    frontend.slurm.run("scancel", "--batch", "--signal=USR1", frontend.job("all"))
    wait_for(lambda: "the time limit is near; requeued" in frontend.log("learner-0"))
    wait_for(lambda: frontend.states()["learner-0"][1].startswith("waiting"))
    assert frontend.run("stop").stdout == "Stopped 1 learner and 3 actors.\n"


def test_inside_an_allocation_the_run_is_its_steps(frontend: Frontend):
    script = frontend.folder / "inside"
    (frontend.folder / "nodes.csv").write_text(
        "job,ip,count\nlearner,n2,\nlearner,n3,\nactor,n1,2\n"
    )
    words = f"{shlex.quote(sys.executable)} run_experiment_mm_raw.py --logdir=logs/run --action="
    script.write_text(
        f"{words}start --backend=slurm --workers_csv_path=nodes.csv && sleep 2\n"
        f"{words}status\nsqueue -h --steps -o '%j %N'\n{words}stop\n{words}status\n"
    )
    done = subprocess.run(
        ["salloc", "--nodes=3", "--ntasks=4", "bash", str(script)],
        cwd=frontend.folder,
        env={**os.environ, **frontend.slurm.env},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    before, stopped, after = done.stdout.partition("Stopped 2 learners and 2 actors.")
    assert stopped, done.stdout + done.stderr
    assert before.count(" running ") == 4
    assert re.search(r"impala-learners-\S+ n\[2-3\]\n", before), before
    assert re.search(r"impala-actors-0-\S+ n1\n", before), before
    assert after.count(" stopped ") == 4
    assert not [line for _, line in _processes() if f"{frontend.folder}/experiment.py" in line]


def test_inside_a_task_of_an_array_the_other_tasks_are_left_alone(frontend: Frontend):
    words = f"{shlex.quote(sys.executable)} run_experiment_mm_raw.py --logdir=logs/run --action="
    flags = "--backend=slurm --learners=1 --actors=2"
    script = frontend.folder / "task"
    # The second task, so that the other one has another name than the array.
    script.write_text(
        "#!/bin/bash\n[[ $SLURM_ARRAY_TASK_ID == 2 ]] || exec sleep 200\n"
        f"{words}start {flags} && sleep 2\n{words}status\n{words}stop\nsqueue -h --array -o %i\n"
    )
    options = ("--array=1-2", "--ntasks=3", f"--output={script}.%a")
    done = frontend.slurm.run(
        "sbatch", "--parsable", f"--chdir={frontend.folder}", *options, str(script)
    )
    job = done.stdout.strip()
    try:
        wait_for(lambda: "Stopped" in Path(f"{script}.2").read_text(), 60)
        wait_for(
            lambda: frontend.slurm.run("squeue", "-h", "--array", "-o", "%i").stdout == f"{job}_1\n"
        )
    finally:
        frontend.slurm.run("scancel", job)
        wait_for(lambda: not frontend.slurm.run("squeue", "-h").stdout)
    said = Path(f"{script}.2").read_text()
    assert "Stopped 1 learner and 2 actors." in said and said.count(" running ") == 3, said


def test_learners_that_have_finished_end_their_actors_even_those_that_come_later(
    frontend: Frontend,
):
    done = frontend.run(
        "start", "--backend=slurm", "--learners=1", "--actors=1", "--level_name=Trained"
    )
    assert done.returncode == 0 and "The learners ended at once, without an error" in done.stdout
    records = frontend.folder / "logs" / "run" / "cluster"
    run_id = json.loads((records / "run.json").read_text())["run_id"]
    command = [sys.executable, "-m", "cluster.on_host.member", "actor", str(records), run_id]
    late = subprocess.run(
        [*command, "learner-0", "learner-0", "--", "false"],
        cwd=frontend.folder, capture_output=True, text=True, timeout=20, check=False,
    )  # fmt: skip
    assert late.returncode == 0 and "the learners have ended" in late.stdout


def test_nothing_is_submitted_that_slurm_would_refuse(frontend: Frontend):
    def jobs() -> set[str]:
        return set(frontend.slurm.run("squeue", "-h", "--states=all", "-o", "%i").stdout.split())

    def refusal(*flags: str, **env: str) -> str:
        done = frontend.run("start", "--backend=slurm", *flags, **env)
        assert done.returncode in (1, 2) and "Traceback" not in done.stderr
        assert jobs() <= before  # Slurm forgets jobs some minutes after their end
        return done.stdout + done.stderr

    before = jobs()
    told = refusal("--learners=1", "--actors=1", "--actor_resources=--partition=nosuch")
    assert "invalid partition specified: nosuch" in told and "Nothing was started." in told
    assert "actors-0" in told and "learner-0 " not in told
    told = refusal("--learners=1", "--learner_resources=--nosuch=1")
    assert "unrecognized option" in told
    told = refusal("--learners=1", "--workers_csv_path=nodes.csv")
    assert "give only one of these" in told
    assert "there is no command sbatch here" in refusal("--learners=1", PATH="/nowhere")
    (frontend.folder / "nodes.csv").write_text("job,ip\nlearner,n77\n")
    assert "node" in refusal("--workers_csv_path=nodes.csv").lower()


def test_a_scheduler_that_misses_a_question_during_a_start_is_asked_again(
    frontend: Frontend, tmp_path: Path
):
    squeue, asked = tmp_path / "bin" / "squeue", tmp_path / "asked"
    squeue.parent.mkdir()
    squeue.write_text(
        f"#!/bin/sh\necho x >>{asked}\n"
        f"[ $(wc -l <{asked}) -gt 2 ] || {{ echo 'Socket timed out' >&2; exit 1; }}\n"
        f'exec {shutil.which("squeue")} "$@"\n'
    )
    squeue.chmod(0o755)
    away = {"PATH": f"{squeue.parent}:{os.environ['PATH']}"}
    started = frontend.run("start", "--backend=slurm", "--learners=1", **away)
    assert started.returncode == 0 and "Started 1 learner" in started.stdout, started.stdout
    assert asked.read_text().count("x") > 2
    assert frontend.run("stop").stdout == "Stopped 1 learner.\n"


def test_a_scheduler_that_does_not_answer_is_no_failed_run(frontend: Frontend, tmp_path: Path):
    frontend.start("--learners=1")
    squeue = tmp_path / "bin" / "squeue"
    squeue.parent.mkdir()
    squeue.write_text("#!/bin/sh\necho 'Unable to contact slurm controller' >&2\nexit 1\n")
    squeue.chmod(0o755)
    away = {"PATH": f"{squeue.parent}:{os.environ['PATH']}"}
    told = frontend.run("status", **away)
    assert told.returncode == 1 and "unknown: Unable to contact slurm controller" in told.stdout
    stopped = frontend.run("stop", **away)
    assert stopped.returncode == 1 and "Not stopped:\n  Slurm: Unable to contact" in stopped.stdout
    assert frontend.run("stop").stdout == "Stopped 1 learner.\n"
