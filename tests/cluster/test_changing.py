"""Actors that are added to a run here and removed: real tmux, a stand-in for experiment.py."""

import dataclasses
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cluster import options, plan
from cluster import record as records
from cluster.actions.seen import UNSEEN, Seen, SeenPart
from cluster.backends import chosen
from cluster.backends.ssh import adding, checking, removing, stopping
from cluster.backends.ssh import backend as ssh_backend
from cluster.backends.ssh.hosts import Hosts
from cluster.inventory import hosts_csv
from cluster.model import Host, Place
from cluster.on_host.processes import start_time
from cluster.record import Record
from cluster.ssh.failures import HostFailed
from cluster.this_machine import here
from tests.cluster.conftest import ROOT, Frontend, wait_for
from tests.cluster.local.runs import ON_THIS_MACHINE, ONE_EACH, state, unhurried
from tests.cluster.plan.plans import HERE
from user_error import UserError

pytestmark = ON_THIS_MACHINE

GROWN = (*ONE_EACH, "actor,localhost,19002", "actor,localhost,19003")


def names(frontend: Frontend) -> list[str]:
    record = json.loads((frontend.logdir / "cluster" / "run.json").read_text())
    return [part["name"] for part in record["parts"]]


def running(frontend: Frontend, name: str) -> bool:
    pid, started = state(frontend, name)["child"] or (0, None)
    return bool(pid) and start_time(pid) == started


def test_a_record_is_written_where_it_was_read(tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    records.write(Record("id", "logs/run", "", (), ()), {})
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path / "home")
    found = records.read("../logs/run")
    assert found == Record("id", "logs/run", "", (), ())
    records.write(dataclasses.replace(found, tmux="more"), {})
    assert not list((tmp_path / "home").iterdir())
    kept = records.read(str(tmp_path / "logs/run"))
    assert kept and (kept.tmux, kept.logdir) == ("more", "logs/run")


def test_a_run_of_an_earlier_version_whose_keys_are_relative_is_that_of_its_csv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    lines = "job,ip,tf_port,ssh_key\nlearner,10.0.0.1,8001,keys/id\n"
    rows = hosts_csv.parse(lines.encode(), "hosts.csv")
    given, settings = options.parse(["--workers_csv_path=hosts.csv", "--logdir=logs/run"])
    made = plan.make_plan(rows, settings, given, HERE)
    records.write(records.record_of(made, ""), {})
    file = tmp_path / "logs/run/cluster/run.json"
    written = file.read_text()
    assert f"{tmp_path}/keys/id" in written
    file.write_text(written.replace(f"{tmp_path}/keys/id", "keys/id"))
    found = records.read("logs/run")
    assert found and found.listeners == records.listeners_of(made)
    assert found.parts == records.parts_of(made)
    # Which key it is does not make it another host.
    hosts = [one.host for one in found.listeners] + [one.host for one in found.parts]
    assert {host.key for host in hosts} == {f"{tmp_path}/keys/id"}


def test_added_actors_get_the_credentials_of_the_run_wherever_they_are_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    copied: list[Path] = []

    def entrust(_plan: Any, _hosts: Any, folder: Path, *_: Any, **__: Any) -> bool:
        copied.append(folder)
        return False

    monkeypatch.setattr(adding.entrusting, "entrust", entrust)
    monkeypatch.setattr(adding.checking, "check", lambda *_, **__: ([], set()))
    run = Record("id", "logs/run", "", (), (), read_in=str(tmp_path / "logs" / "run"))
    given, settings = options.parse(["--workers_csv_path=x", "--transport=secure"])
    plan: Any = None
    assert adding.add(plan, run, given, settings, plan, tmp_path) == 1
    assert copied == [tmp_path / "logs" / "run"]


def test_rows_that_do_not_run_are_added_and_nothing_else_is_touched(frontend: Frontend):
    frontend.csv(*ONE_EACH)
    refused = frontend.run("add")
    assert refused.returncode == 2 and "no run was started in logs/run" in refused.stderr
    assert not frontend.logdir.exists()
    assert frontend.run("start", "--seed=5", "--restart_actors=2").returncode == 0
    before = state(frontend, "learner-0"), state(frontend, "actor-0")
    nothing = frontend.run("add")
    assert nothing.returncode == 0
    assert nothing.stdout == "hosts.csv: every actor in it is running already.\n"

    frontend.csv(ONE_EACH[0], *GROWN[3:], *ONE_EACH[1:])  # before the others: names stay
    # Hosts know the folder by its first name.
    shown = frontend.run("add", "--dry_run", f"--logdir={frontend.logdir}")
    assert shown.returncode == 0 and names(frontend) == ["learner-0", "actor-0"]
    for text in ("# actor-1 on localhost", "# actor-2 on localhost", "--seed=5", "--task=2"):
        assert text in shown.stdout
    assert "--logdir=logs/run" in shown.stdout
    assert "actor-0" not in shown.stdout and "job_name=learner" not in shown.stdout

    added = frontend.run("add")
    assert added.returncode == 0, added.stdout + added.stderr
    assert added.stdout == "Added 2 actors: actor-1, actor-2.\n"
    assert (state(frontend, "learner-0"), state(frontend, "actor-0")) == before
    spec = json.loads((frontend.logdir / "cluster" / "actor-2.spec.json").read_text())
    assert "--seed=5" in spec["argv"] and spec["restarts"] == 2
    wait_for(lambda: "actor 2 reached localhost:18001" in frontend.run("logs").stdout)
    assert frontend.tmux("list-windows", "-t", "impala", "-F", "#W").split() == [
        "learner-0", "actor-0", "actor-1", "actor-2",
    ]  # fmt: skip
    assert frontend.run("stop").stdout == "Stopped 1 learner and 3 actors.\n"
    ended = frontend.run("add")
    assert ended.returncode == 2 and "no learner is running there" in ended.stderr


def test_removed_actors_end_the_rest_goes_on_and_they_can_be_added_again(frontend: Frontend):
    frontend.csv(*GROWN)
    assert frontend.run("start").returncode == 0
    wrong = frontend.run("remove", "--hosts=10.0.0.9")
    assert wrong.returncode == 2
    assert "--hosts=10.0.0.9: the run has no actor there. Its actors are on" in wrong.stderr
    none = frontend.run("remove", "--hosts=,")
    assert none.returncode == 2 and "--hosts=,: names no host" in none.stderr
    shown = frontend.run("remove", "--hosts=localhost", "--dry_run")
    assert shown.stdout.splitlines() == [f"actor-{n} on localhost" for n in range(3)]
    assert all(running(frontend, f"actor-{number}") for number in range(3))

    removed = frontend.run("remove", "--hosts=localhost")
    assert removed.returncode == 0, removed.stdout + removed.stderr
    assert removed.stdout == "Removed 3 actors: actor-0, actor-1, actor-2.\n"
    assert names(frontend) == ["learner-0"]
    assert not any(running(frontend, f"actor-{number}") for number in range(3))
    assert running(frontend, "learner-0") and frontend.run("status").returncode == 0
    assert frontend.tmux("list-windows", "-t", "impala", "-F", "#W").split() == ["learner-0"]

    assert frontend.run("add").stdout == "Added 3 actors: actor-0, actor-1, actor-2.\n"
    assert all(running(frontend, f"actor-{number}") for number in range(3))
    assert frontend.run("stop").stdout == "Stopped 1 learner and 3 actors.\n"
    assert frontend.processes() == []


def test_an_actor_that_has_ended_is_added_again(frontend: Frontend):
    frontend.csv(*GROWN)
    assert frontend.run("start").returncode == 0
    os.kill(state(frontend, "actor-1")["child"][0], signal.SIGKILL)
    wait_for(lambda: not running(frontend, "actor-1"))
    wait_for(lambda: "actor-1" in frontend.run("status").stdout)
    added = frontend.run("add")
    assert added.stdout == "Added 1 actor: actor-1.\n", added.stdout + added.stderr
    assert all(running(frontend, f"actor-{number}") for number in range(3))
    windows = frontend.tmux("list-windows", "-t", "impala", "-F", "#W").split()
    assert sorted(windows) == ["actor-0", "actor-1", "actor-2", "learner-0"]


def test_who_follows_a_run_sees_the_actors_that_come(frontend: Frontend, tmp_path: Path):
    frontend.csv(*ONE_EACH)
    assert frontend.run("start").returncode == 0
    said = {"status": tmp_path / "status", "logs": tmp_path / "logs"}
    following = [
        subprocess.Popen(
            frontend.command(action, "--follow", *(["--json"] if action == "status" else [])),
            cwd=frontend.folder,
            env=frontend.env,
            stdout=path.open("w"),
        )
        for action, path in said.items()
    ]
    try:
        wait_for(lambda: all("actor-0" in path.read_text() for path in said.values()))
        frontend.csv(*GROWN)
        assert frontend.run("add").returncode == 0
        wait_for(lambda: '"process": "actor-2"' in said["status"].read_text())
        wait_for(lambda: "actor 2 reached localhost" in said["logs"].read_text())
        assert frontend.run("stop").returncode == 0
        assert [process.wait(60) for process in following] == [0, 0]
    finally:
        for process in following:
            process.kill()
            process.wait()
    reached = [line for line in said["logs"].read_text().splitlines() if "reached" in line]
    assert len(reached) == len(set(reached))  # each line once


def test_an_actor_that_ignores_a_signal_is_killed_when_it_is_removed(frontend: Frontend):
    frontend.csv(*ONE_EACH)
    assert frontend.run("start").returncode == 0
    frontend.csv(*GROWN[:4])
    assert frontend.run("add", "--level_name=Stubborn").returncode == 0
    assert frontend.run("remove", "--hosts=localhost", "--stop_grace_s=1").returncode == 0
    assert not running(frontend, "actor-1") and running(frontend, "learner-0")


def test_another_key_for_a_login_makes_no_other_host_of_it():
    lines = (
        "job,ip,tf_port,ssh_key\nlearner,10.0.0.1,8001,/keys/{0}\nactor,10.0.0.2,9001,/keys/{0}\n"
    )
    given, settings = options.parse(["--workers_csv_path=hosts.csv", "--logdir=logs/run"])
    before, now = (hosts_csv.parse(lines.format(key).encode(), "f") for key in ("old", "new"))
    run = records.record_of(plan.make_plan(before, settings, given, here()), "")
    alive = [SeenPart(part, "running") for part in run.parts]
    new, away = adding.plan(run, Seen(alive, {}, {}, {}), now, settings, given)
    assert not new.actors and not away
    # A restart may have the ports of the run that it ends.
    made = plan.make_plan(now, settings, given, here())
    asked = checking._requests(made, ROOT, "", run, listening=False)
    assert len(asked) == 2 and not any(one["ports"] for one in asked.values())
    assert {place.host.key for place in asked} == {"/keys/new"}


class Silent(Hosts):
    """Hosts of which none answers."""

    def __init__(self) -> None:
        pass

    def ask(self, place: Place, request: dict[str, Any]) -> dict[str, Any]:
        raise HostFailed("No route to host", passing=True)


def test_an_actor_that_cannot_be_seen_is_neither_added_nor_called_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    lines = "job,ip,tf_port\nlearner,10.0.0.1,8001\nactor,10.0.0.2,9001\n"
    Path("hosts.csv").write_text(lines)
    given, settings = options.parse(["--workers_csv_path=hosts.csv", "--ssh_config=none"])
    rows = hosts_csv.parse(lines.encode(), "hosts.csv")
    run = records.record_of(plan.make_plan(rows, settings, given, here()), "")
    learner, actor, *_ = run.parts
    away = SeenPart(actor, f"{UNSEEN}No route to host")
    seen = Seen([SeenPart(learner, "running"), away], {}, {}, {})
    monkeypatch.setattr(ssh_backend.looking, "find_learners", lambda *_: seen)
    monkeypatch.setattr(ssh_backend, "connections", lambda *_: None)
    assert ssh_backend.SshBackend(given, settings).add(run) == 1
    said = capsys.readouterr().out
    assert said.startswith("actor-0 cannot be seen: ") and "running already" not in said


@pytest.mark.parametrize(
    ("action", "advice"),
    [
        ("remove --hosts=10.0.0.2", "Give the same command to try again."),
        ("add", "End the rest with --action=remove and --hosts, once it can be reached."),
    ],
)
def test_what_cannot_be_ended_is_ended_by_another_command_than_the_one_that_started_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], action: str, advice: str
):
    lines = "job,ip,tf_port\nlearner,10.0.0.1,8001\nactor,10.0.0.2,9001\n"
    rows = hosts_csv.parse(lines.encode(), "hosts.csv")
    flags = ["--workers_csv_path=hosts.csv", f"--logdir={tmp_path}", *f"--action={action}".split()]
    given, settings = options.parse(flags)
    run = records.record_of(plan.make_plan(rows, settings, given, HERE), "")
    assert removing.end(run, run.parts[1:2], given, Silent()) == 1
    assert capsys.readouterr().out.splitlines()[-1] == advice
    assert records.must_read(str(tmp_path)).parts == run.parts


@pytest.mark.parametrize(
    ("action", "advice"),
    [
        ("stop", "Give the same command to try again."),
        ("start", "End the rest with --action=stop, once it can be reached."),
    ],
)
def test_a_start_that_cannot_be_undone_says_what_ends_the_rest(
    capsys: pytest.CaptureFixture[str], action: str, advice: str
):
    given, settings = options.parse(["--workers_csv_path=hosts.csv", f"--action={action}"])
    rows = hosts_csv.parse(b"job,ip,tf_port\nlearner,10.0.0.1,8001\n", "hosts.csv")
    run = records.record_of(plan.make_plan(rows, settings, given, HERE), "")
    assert stopping.stop(run, given, Silent()) == 1
    assert capsys.readouterr().out.splitlines()[-1] == advice


def test_actors_are_removed_by_the_address_that_the_csv_has():
    lines = "job,ip,tf_port,ssh_port\nlearner,10.0.0.1,8001,\nactor,2001:DB8:0::2,9001,22\n"
    rows = hosts_csv.parse(lines.encode(), "hosts.csv")
    given, settings = options.parse(["--workers_csv_path=hosts.csv"])
    run = records.record_of(plan.make_plan(rows, settings, given, HERE), "")
    for word in ("2001:DB8:0::2", "2001:db8::2", "me@2001:db8::2"):
        assert [part.name for part in removing._chosen(run, f" {word},")] == ["actor-0"]


def test_where_no_actor_has_been_added_nothing_has():
    assert removing.listed([]) == "nothing"


def test_an_added_actor_that_fails_takes_only_the_added_ones_with_it(frontend: Frontend):
    unhurried(frontend)
    frontend.csv(*ONE_EACH)
    assert frontend.run("start").returncode == 0
    frontend.csv(*GROWN)
    failed = frontend.run("add", "--level_name=Fails")
    assert failed.returncode == 1
    assert "Not everything was added, so the new actors are stopped again:" in failed.stdout
    assert "actor-1 on localhost: failed: 3" in failed.stdout
    assert names(frontend) == ["learner-0", "actor-0"] and running(frontend, "actor-0")
    assert frontend.run("add").returncode == 0
    frontend.csv("job,ip,tf_port", "learner,localhost,18002", GROWN[2])
    refused = frontend.run("add")
    assert refused.returncode == 2
    assert "hosts.csv: its learners are not those of the run" in refused.stderr


def test_an_added_row_gets_the_lowest_number_that_is_free():
    lines = "job,ip,tf_port\nlearner,10.0.0.8,8001\nlearner,10.0.0.9,8002\n"
    lines += "actor,10.0.0.2,9001\nactor,10.0.0.1,9001\nactor,10.0.0.1,9002\n"
    rows = hosts_csv.parse(lines.encode(), "hosts.csv")
    arguments = ["--workers_csv_path=hosts.csv", "--level_name=CartPole-v1"]
    given, settings = options.parse(arguments)
    taken = {(Host("10.0.0.1", 22, HERE.username), 9002): 1}
    actors = plan.make_plan(rows, settings, given, HERE, taken).actors
    assert [(one.row.ip, one.tf_port, one.name, one.learner) for one in actors] == [
        ("10.0.0.2", 9001, "actor-0", 0),
        ("10.0.0.1", 9001, "actor-2", 0),
        ("10.0.0.1", 9002, "actor-1", 1),
    ]


@pytest.mark.parametrize("backend", ["slurm", "kubernetes"])
def test_other_backends_say_that_their_actors_cannot_be_changed(backend: str):
    given, settings = options.parse(["--action=remove", "--hosts=a"])
    record = Record("id", "logs/run", "", (), ())
    made = chosen.make(backend, given, settings)
    for change in (made.add, made.remove):
        with pytest.raises(UserError, match="is for hosts of your own.*--action=restart"):
            change(record)
