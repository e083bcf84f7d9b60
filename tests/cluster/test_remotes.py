"""Rows of remotes: who plays where, what is started, and a real run with two desktops."""

import json
import shutil
import signal
from pathlib import Path

import psutil
import pytest

from cluster import show
from cluster.actions.seen import Seen, SeenPart
from cluster.inventory import hosts_csv
from cluster.inventory.hosts_csv import Row
from cluster.model import Plan
from cluster.record import Part
from tests.cluster.conftest import ROOT, Frontend, wait_for
from tests.cluster.plan.plans import flags_of, plan, row
from user_error import UserError

LEVEL = "--level_name=vnc:Catch-v0"
EXAMPLE = ROOT / "sandbox" / "remotes_example.csv"


def played(made: Plan) -> dict[str, list[str]]:
    """The remotes of each actor, as the actor itself takes them from the list that all get."""
    found = {}
    for process in made.processes:
        if process.job == "actor":
            flags = flags_of(process.argv)
            count, task = int(flags["envs_per_actor"]), int(flags["task"])
            found[process.name] = flags["remotes"].split(",")[task * count :][:count]
    return found


def two_hosts(*more: Row) -> list[Row]:
    return [
        row("learner", "10.0.0.9", 8001),
        row("actor", "10.0.0.1", 9001, envs=2),
        row("actor", "10.0.0.2", 9001, envs=2),
        *more,
    ]


def test_actors_play_on_their_own_host_first_and_elsewhere_where_most_is_left():
    rows = two_hosts(
        row("remote", "10.0.0.2", 5901, count=2), row("remote", "10.0.0.3", 6001, count=2)
    )
    made = plan(rows, LEVEL)
    assert played(made) == {
        "actor-0": ["10.0.0.3:6001+6002", "10.0.0.3:6003+6004"],
        "actor-1": ["127.0.0.1:5901+5902", "127.0.0.1:5903+5904"],
    }
    served = {one.name: flags_of(one.argv) for one in made.processes if one.job == "remote"}
    assert list(served) == ["remote-0", "remote-1", "remote-2", "remote-3"]
    # Beyond loopback only where an actor of another host plays.
    assert [one["host"] for one in served.values()] == ["127.0.0.1"] * 2 + ["10.0.0.3"] * 2
    ports = [(one["vnc_port"], one["rewarder_port"]) for one in served.values()]
    assert ports[:2] == [("5901", "5902"), ("5903", "5904")]
    assert len({one["seed"] for one in served.values()}) == 4
    spread = two_hosts(*(row("remote", f"10.0.0.{n}", 5901, count=2) for n in (3, 4)))
    hosts = [[one.partition(":")[0] for one in two] for two in played(plan(spread, LEVEL)).values()]
    assert hosts == [["10.0.0.3", "10.0.0.4"]] * 2


def test_remotes_serve_what_their_actor_plays_with_the_flags_of_the_run():
    rows = [*two_hosts(), row("remote", "10.0.0.1", 5901, count=2),
            row("remote", "10.0.0.2", 5901, count=2)]  # fmt: skip
    made = plan(rows, "--level_name=vnc:Catch-v0,vnc:CartPole-v1", "--fps=12", "--restart_actors=3")
    remotes = [one for one in made.processes if one.job == "remote"]
    levels = [flags_of(one.argv)["level_name"] for one in remotes]
    assert levels == ["Catch-v0", "Catch-v0", "CartPole-v1", "CartPole-v1"]
    assert all(flags_of(one.argv)["fps"] == "12.0" and one.restarts == 3 for one in remotes)
    games = plan([row("learner", "localhost", 8001), row("actor", "localhost", 9001, envs=1),
                  row("remote", "localhost", 5901)], "--level_name=vnc:game.yaml")  # fmt: skip
    (game,) = [one for one in games.processes if one.job == "remote"]
    assert flags_of(game.argv)["game"] == "game.yaml" and "level_name" not in flags_of(game.argv)
    assert "remote-0" in "\n".join(show.commands(games))


@pytest.mark.parametrize(
    ("alive", "goes_on"),
    [(("actor", "remote"), True), (("remote", "tensorboard"), False), ((), False)],
)
def test_a_run_of_which_only_remotes_are_left_has_ended(alive, goes_on):
    made = plan(two_hosts(row("remote", "10.0.0.1", 5901, count=4)), LEVEL)
    parts = [
        SeenPart(Part(one.name, one.job, one.place), "running" if one.job in alive else "done")
        for one in made.processes
    ]
    assert {one.part.job for one in parts} >= {"learner", "actor", "remote", "tensorboard"}
    assert Seen(parts, {}, {}, {}).is_alive == goes_on


@pytest.mark.parametrize(
    "rows, flags, told",
    [
        (two_hosts(row("remote", "10.0.0.1", 5901, count=3)), (LEVEL,), "3 remotes, but 2 actors"),
        (two_hosts(row("remote", "10.0.0.1", 5901, count=4)), (), "is not played on desktops"),
        (two_hosts(row("remote", "localhost", 5901, count=4)), (LEVEL,), "cannot reach it"),
        (
            two_hosts(row("remote", "10.0.0.1", 5901, count=4)),
            (LEVEL, "--remotes=h:1+2"),
            "leave out --remotes",
        ),
        (
            [*two_hosts(row("remote", "10.0.0.1", 5901)), row("actor", "10.0.0.1", 9100, envs=1)],
            (LEVEL,),
            "all actors need the same number",
        ),
        (
            [row("learner", "localhost", 8001), row("remote", "localhost", 5901)],
            (LEVEL,),
            "found no actors",
        ),
    ],
)
def test_remotes_that_do_not_fit_are_refused_in_one_line(rows, flags, told):
    with pytest.raises(UserError, match=told) as error:
        plan(rows, *flags)
    assert "\n" not in str(error.value) or told == "cannot reach it"


def test_a_remote_has_two_ports_and_no_environments_and_needs_hosts_of_your_own():
    (served,) = [one for one in hosts_csv.read(EXAMPLE) if one.job == "remote"]
    assert list(served.ports) == [5901, 5903] and list(served.all_ports) == [5901, 5902, 5903, 5904]

    def refusal(*lines: str, of_nodes: bool = False) -> str:
        with pytest.raises(UserError) as error:
            text = "\n".join(["job,ip,tf_port,envs,count", "learner,h,8001,,", *lines])
            hosts_csv.parse(text.encode(), "hosts.csv", of_nodes)
        return str(error.value)

    assert "5902 of h is used by line 3" in refusal("remote,h,5901,,1", "actor,h,5902,,")
    assert "for a remote; only actors" in refusal("remote,h,5901,2,1")
    assert "above 65535" in refusal("remote,h,65534,,2")
    assert "remotes are for --backend=ssh" in refusal("remote,,,,", of_nodes=True)


@pytest.mark.extras
@pytest.mark.timeout(600)
@pytest.mark.xdist_group("remotes")
@pytest.mark.skipif(not shutil.which("Xtigervnc"), reason="needs TigerVNC")
def test_desktops_are_started_watched_restarted_and_stopped_with_the_run(frontend: Frontend):
    for name in ("agents", "environments", "transport", "vtrace", "experiment.py"):
        whole = (ROOT / name).is_dir()
        target = frontend.folder / name
        target.unlink(missing_ok=True)
        (shutil.copytree if whole else shutil.copy)(ROOT / name, target)
    frontend.csv(*EXAMPLE.read_text().replace(",5901,", ",15901,").splitlines())
    flags = (LEVEL, "--fps=10", "--width=10", "--height=10", "--batch_size=2", "--unroll_length=5",
             "--report_every_s=1", "--restart_actors=3")  # fmt: skip
    started = frontend.run("start", *flags)
    assert started.returncode == 0, started.stdout + started.stderr
    assert "Started 1 learner, 1 actor and 2 remotes." in started.stdout
    secret = frontend.logdir / "credentials" / "desktops.vnc"
    assert secret.stat().st_mode & 0o077 == 0
    record = (frontend.logdir / "cluster" / "run.json").read_bytes()
    assert secret.read_bytes() not in record
    metrics = frontend.logdir / "metrics.jsonl"

    def trained() -> int:
        return json.loads(metrics.read_text().splitlines()[-1])["updates"]

    wait_for(lambda: trained() > 0, 300)
    spec = frontend.logdir / "cluster" / "remote-0.json"
    child = json.loads(spec.read_text())["child"][0]
    psutil.Process(child).send_signal(signal.SIGKILL)
    wait_for(lambda: json.loads(spec.read_text())["restarts"] == 1, 60)
    wait_for(lambda: "look: vncviewer" in frontend.run("logs", "--name=remote-0").stdout, 60)
    assert "next try in" in frontend.run("logs", "--name=actor-0").stdout
    before = trained()
    wait_for(lambda: trained() > before + 1, 120)
    stopped = frontend.run("stop")
    assert "Stopped 1 learner, 1 actor and 2 remotes." in stopped.stdout
    assert frontend.processes() == []
    desktops = [one for one in psutil.process_iter(["cmdline"])
                if str(frontend.folder) in " ".join(one.info["cmdline"] or [])]  # fmt: skip
    assert not desktops


def test_secrets_are_on_no_command_line(tmp_path: Path):
    rows = [row("learner", "localhost", 8001), row("actor", "localhost", 9001, envs=1),
            row("remote", "localhost", 5901)]  # fmt: skip
    made = plan(rows, LEVEL, f"--logdir={tmp_path}")
    files = [flags_of(one.argv).get("password_file", "") for one in made.processes]
    assert f"{tmp_path}/credentials/desktops.vnc" in files
    assert not (tmp_path / "credentials").exists()  # a plan makes none
