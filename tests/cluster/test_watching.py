"""Watching a run on this machine, and what its keepers do for it: real tmux and mpirun."""

import json
import os
import signal
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from cluster import record as records
from cluster.actions import watching
from cluster.backends.ssh import looking
from cluster.backends.ssh.hosts import Hosts
from cluster.model import Place
from cluster.on_host import answers
from cluster.on_host.processes import boot_id, descendants, send, start_time
from tests.cluster.conftest import ROOT, Frontend, wait_for
from tests.cluster.local.runs import EXAMPLE, ON_THIS_MACHINE, ONE_EACH, state
from tests.cluster.plan.plans import plan, row
from tests.cluster.terminal import Terminal

pytestmark = ON_THIS_MACHINE


def rows_of(picture: str) -> dict[str, list[str]]:
    """The fields of each process's row in a table of status, by its name."""
    header, *lines = [line for line in picture.splitlines() if line.strip()]
    begins = [header.index(name) for name in header.replace("last line", "last").split()]
    rows = [
        [line[at:to].strip() for at, to in zip(begins, [*begins[1:], None], strict=True)]
        for line in lines
    ]
    return {row[0]: row[1:] for row in rows}


def test_status_tells_how_fast_each_process_is_where_it_says_so(frontend: Frontend):
    frontend.csv(*ONE_EACH)
    assert frontend.run("start").returncode == 0
    picture = wait_for(
        lambda: (told := frontend.run("status").stdout).count("localhost:18001") > 1 and told
    )
    rows = rows_of(picture)
    host, now, _, restarts, rate, last = rows["learner-0"]
    assert (host, now, restarts, rate) == ("localhost", "running", "", "678")
    assert last == "learner at localhost:18001 is rank - of -"
    assert rows["actor-0"][4].startswith("1,0")
    # A process that stands still says nothing of its speed after a while.
    actor = state(frontend, "actor-0")["child"]
    assert send(actor[0], actor[1], signal.SIGSTOP)
    log = frontend.logdir / "cluster" / "actor-0.log"
    os.utime(log, (0, log.stat().st_mtime - 1000))
    assert rows_of(frontend.run("status").stdout)["actor-0"][4] == ""


def test_status_can_be_read_by_programs(frontend: Frontend):
    frontend.csv(*ONE_EACH)
    assert frontend.run("start").returncode == 0
    wait_for(lambda: "frames/s" in frontend.run("logs").stdout)
    told = json.loads(frontend.run("status", "--json").stdout)
    assert told["alive"] and not told["failed"]
    assert told["figures"]["environment_frames"] == 12345
    learner, actor = told["processes"]
    assert (learner["process"], learner["host"], learner["state"]) == (
        "learner-0", "localhost", "running",
    )  # fmt: skip
    assert learner["frames_per_second"] == 678.0 and actor["frames_per_second"] > 1000
    assert frontend.run("stop").returncode == 0
    told = json.loads(frontend.run("status", "--json").stdout)
    assert not told["alive"] and told["processes"][1]["frames_per_second"] is None


@pytest.mark.parametrize(
    ("agents", "flags", "folders"),
    [
        (("red", "blue"), ["--agents=red,blue"], ("agents/red", "agents/blue")),
        (("", ""), ["--algorithm=a3c"], (".", "learner-1")),
    ],
)
def test_status_tells_the_figures_of_each_learner_that_reports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], agents, flags, folders
):
    """Of those of several agents, and of those that exchange gradients."""
    rows = [row("learner", f"10.0.0.{n}", 8001, agent=name) for n, name in enumerate(agents)]
    run = records.record_of(plan(rows, "--logdir=logs/run", *flags), "")

    class There(Hosts):
        """Hosts that are folders of this one, where each learner has written a report."""

        def __init__(self) -> None:
            pass

        def ask(self, place: Place, request: dict[str, Any]) -> dict[str, Any]:
            return answers.answer({**request, "folder": str(tmp_path / place.host.ip)})

    for number, folder in enumerate(folders):
        path = tmp_path / f"10.0.0.{number}" / "logs/run" / folder / "metrics.jsonl"
        path.parent.mkdir(parents=True)
        report = {"environment_frames": 1000 + number, "frames_per_second": 50.0 + number}
        path.write_text(json.dumps(report) + "\n")
    seen = looking.look(run, There())
    assert [seen.figures[f"learner-{n}"]["environment_frames"] for n in (0, 1)] == [1000, 1001]
    # The speed of each is its own.
    [*learners, _] = [watching.lines_of(one, seen.figures)[0] for one in seen.parts]
    assert [rate for _, _, rate in learners] == ["50", "51"]
    backend: Any = types.SimpleNamespace(look=lambda _: seen)
    watching.status(run, backend, follow=False, as_json=True)
    told = json.loads(capsys.readouterr().out)
    watching.status(run, backend, follow=False)
    shown = capsys.readouterr().out
    if agents[0]:
        assert {name: its["environment_frames"] for name, its in told["agents"].items()} == {
            "red": 1000, "blue": 1001,
        }  # fmt: skip
        assert "red: 1,000 frames" in shown and "blue: 1,001 frames" in shown
    else:
        assert told["figures"]["environment_frames"] == 1000 and "agents" not in told
        assert "1,000 frames" in shown and "1,001 frames" not in shown


def test_follow_goes_on_until_the_run_has_ended(frontend: Frontend, tmp_path: Path):
    frontend.csv(*ONE_EACH)
    assert frontend.run("start").returncode == 0
    said = {action: tmp_path / action for action in ("status", "logs")}
    following = [
        subprocess.Popen(
            frontend.command(action, "--follow"),
            cwd=frontend.folder,
            env=frontend.env,
            stdout=path.open("w"),
        )
        for action, path in said.items()
    ]
    try:
        wait_for(lambda: said["status"].read_text().count("last line") >= 3)
        first = said["logs"].read_text()
        wait_for(lambda: len(said["logs"].read_text()) > len(first) > 0)
        assert frontend.run("stop").returncode == 0
        assert [process.wait(60) for process in following] == [0, 0]
    finally:
        for process in following:
            process.kill()
            process.wait()
    reached = [line for line in said["logs"].read_text().splitlines() if "reached" in line]
    assert all(line.startswith("actor-0 ") for line in reached)
    assert len(reached) == len(set(reached))  # each line once
    assert said["status"].read_text().count("stopped") >= 2


def test_a_line_that_nobody_will_end_is_shown(frontend: Frontend, tmp_path: Path):
    frontend.csv(*ONE_EACH)
    assert frontend.run("start").returncode == 0
    assert frontend.run("stop").returncode == 0
    with open(frontend.logdir / "cluster" / "actor-0.log", "a") as log:
        log.write("Segmentation fa")
    assert frontend.run("logs").stdout.endswith("actor-0      Segmentation fa\n")

    # Nor does one that is longer than what is read at once hold up those that follow a log.
    (tmp_path / "a.log").write_bytes(b"x" * (answers.MOST_AT_ONCE + 1))
    keeper = [os.getpid(), start_time(os.getpid())]
    alive = {"state": "running", "run_id": "r", "boot_id": boot_id(), "keeper": keeper}
    (tmp_path / "a.json").write_text(json.dumps(alive))
    told = answers.tail({"records": tmp_path, "run_id": "r", "offsets": {"a": 0}})
    assert told["alive"] == ["a"] and told["logs"]["a"]["offset"] == answers.MOST_AT_ONCE


def test_what_never_started_is_not_explained_by_lines_of_the_run_before(tmp_path: Path):
    (tmp_path / "a.log").write_text("keeper: cannot be started\n")
    written: dict = {"state": "ended", "exit_code": 127, "run_id": "before", "keeper": [1, 1]}
    (tmp_path / "a.json").write_text(json.dumps(written))
    asked = {"records": tmp_path, "run_id": "before", "names": ["a"]}
    assert answers.status(asked)["states"]["a"]["last_lines"] == ["keeper: cannot be started"]
    told = answers.status({**asked, "run_id": "this"})["states"]["a"]
    assert (told["state"], told["last_lines"]) == ("not started", [])
    (tmp_path / "stopped").write_text("this")  # before it could start
    told = answers.status({**asked, "run_id": "this"})["states"]["a"]
    assert (told["state"], told["last_lines"]) == ("stopped", [])


def test_what_has_printed_nothing_yet_is_not_explained_by_them_either(tmp_path: Path):
    spec: dict = {"name": "a", "env": (), "restarts": 0, "under_mpirun": False, "grace_s": 1}
    spec |= {"run_id": "r", "folder": str(tmp_path), "state": str(tmp_path / "a.json")}
    spec["log"] = str(tmp_path / "a.log")
    asked = {"records": tmp_path, "run_id": "r", "names": ["a"]}
    for command, told in (("echo 1,000 frames/s", ["1,000 frames/s"]), ("true", []), ("echo", [])):
        given = {**spec, "argv": ["sh", "-c", command]}
        (tmp_path / "a.spec.json").write_text(json.dumps(given))
        keeper = [sys.executable, "-m", "cluster.on_host.keeper", str(tmp_path / "a.spec.json")]
        subprocess.run(keeper, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        assert answers.status(asked)["states"]["a"]["last_lines"] == told
    os.truncate(tmp_path / "a.log", 0)  # by somebody else
    (tmp_path / "a.log").write_text("new\n")
    assert answers.status(asked)["states"]["a"]["last_lines"] == ["new"]


def test_in_a_terminal_status_is_refreshed_in_place(frontend: Frontend):
    frontend.csv(*ONE_EACH)
    assert frontend.run("start").returncode == 0
    command = frontend.command("status", "--follow")
    with Terminal(command, frontend.folder, frontend.env) as terminal:
        terminal.wait_for("last line", times=3)
        assert "\x1b[" in terminal.shown
        assert frontend.run("stop").returncode == 0
        assert terminal.wait() == 0
    with Terminal(command, frontend.folder, frontend.env) as terminal:
        assert terminal.wait() == 0 and "stopped" in terminal.shown


def test_ctrl_c_ends_following_and_not_the_run(frontend: Frontend):
    frontend.csv(*ONE_EACH)
    assert frontend.run("start").returncode == 0
    command = frontend.command("logs", "--follow")
    with Terminal(command, frontend.folder, frontend.env) as terminal:
        terminal.wait_for("actor-0")
        terminal.type("\x03")
        assert terminal.wait() == 130 and "Traceback" not in terminal.shown
    assert frontend.run("status").returncode == 0


def is_learner(pid: int) -> bool:
    """Whether it is a learner, and not the mpirun, whose command line has those of all learners."""
    program, *words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return b"--job_name=learner" in words and not program.endswith(b"mpirun")


def kill_a_learner(frontend: Frontend) -> list[int]:
    """Kills one of the learners under mpirun; returns the mpirun."""
    before = state(frontend, "learners")["child"]
    learner = wait_for(lambda: [pid for pid in descendants(before[0]) if is_learner(pid)])[0]
    assert send(learner, start_time(learner) or 0, signal.SIGKILL)
    return before


def test_learners_that_fail_are_started_again_together_but_not_for_ever(frontend: Frontend):
    frontend.csv(*EXAMPLE)
    assert frontend.run("start", "--restart_learners=1").returncode == 0

    before = kill_a_learner(frontend)
    wait_for(
        lambda: (
            (now := state(frontend, "learners"))["restarts"] == 1
            and now["state"] == "running"
            and now["child"] != before
        )
    )
    wait_for(lambda: frontend.run("logs", "--name=learner-1").stdout.count("is rank 1 of 2") == 2)
    told = frontend.run("status")
    assert told.returncode == 0 and rows_of(told.stdout)["learner-1"][3] == "1"
    assert "restarting in 1 s" in frontend.run("logs", "--name=learners").stdout

    kill_a_learner(frontend)
    wait_for(lambda: state(frontend, "learners")["state"] == "ended")
    told = frontend.run("status")
    assert told.returncode == 1 and rows_of(told.stdout)["learner-0"][1].startswith("failed")
    assert rows_of(told.stdout)["actor-0"][1] == "running"


def test_what_does_not_fit_the_run_is_told(frontend: Frontend):
    frontend.csv(*EXAMPLE)
    assert frontend.run("start").returncode == 0
    told = frontend.run("logs", "--name=actor-9")
    assert told.returncode == 2
    assert "--name=actor-9: the run has no such process; expected one of learner-0, " in told.stderr
    reader = subprocess.Popen(
        frontend.command("logs"), cwd=frontend.folder, env=frontend.env,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert reader.stdout and reader.stderr
    reader.stdout.close()  # as head does when it has seen enough
    assert reader.wait(60) == 1 and reader.stderr.read() == b""
    reader.stderr.close()


def test_a_run_is_found_by_another_name_of_its_folder(frontend: Frontend, tmp_path: Path):
    frontend.csv(*ONE_EACH)
    assert frontend.run("start", "--restart_actors=5").returncode == 0
    elsewhere = Frontend(frontend.folder, frontend.env, [f"--logdir={frontend.logdir}"])
    assert rows_of(elsewhere.run("status").stdout)["actor-0"][1] == "running"
    stopped = elsewhere.run("stop")
    assert "Stopped 1 learner and 1 actor." in stopped.stdout
    assert frontend.processes() == []


def test_a_session_in_the_way_is_told_before_anything_is_started(frontend: Frontend):
    frontend.csv(*ONE_EACH)
    frontend.tmux("new-session", "-d", "-s", "impala", "sleep 100")
    told = frontend.run("check")
    assert told.returncode == 1 and "there is a tmux session 'impala' already" in told.stdout
    assert frontend.run("check", "--tmux_sess=other").returncode == 0
