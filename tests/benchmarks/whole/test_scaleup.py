"""The benchmark of scale-up runs real learners and actors, and shows what it found."""

import contextlib
import json
import os
import signal
import sys
import time
from typing import Any, cast

import psutil
import pytest

from benchmarks.tools.ports import free_port
from benchmarks.whole.scaleup import __main__ as scaleup
from benchmarks.whole.scaleup import cases, here, hosts
from benchmarks.whole.scaleup.__main__ import main
from benchmarks.whole.scaleup.cases import Case
from benchmarks.whole.scaleup.options import parse
from benchmarks.whole.scaleup.processes import Failed
from cluster.inventory import hosts_csv
from tests.benchmarks.whole.gpus import path_with_nvidia_smi
from tests.benchmarks.whole.stopping import killed, stopped_at
from tests.pictures import coloured
from user_error import UserError

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("benchmarks"),
]

QUICK = ["--repeats=1", "--windows=1", "--warm_up=1", "--window_s=0.5", "--level_name=CartPole-v1"]


def test_learners_together_stand_beside_learners_apart_and_one_alone(tmp_path, capsys):
    assert main([*QUICK, "--learners=2", f"--results={tmp_path}"]) == 0
    told = capsys.readouterr().out
    assert "against one alone" in told and "against learners apart" in told
    found = json.loads((tmp_path / "scaleup.json").read_text())
    one, two = found["cases"]
    assert (one["learners"], two["learners"]) == (1, 2)
    together, apart = two["steps_per_second"][0], two["apart_steps_per_second"][0]
    assert two["against_learners_apart"]["median"] == pytest.approx(together / apart)
    alone = one["steps_per_second"][0]
    assert two["against_one_alone"]["median"] == pytest.approx(together / (2 * alone))
    assert coloured(tmp_path / "scaleup.png") > 0


def test_turns_that_have_ended_are_written_when_it_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(scaleup, "measured", stopped_at(6, 100.0))
    monkeypatch.setattr(scaleup.common, "unwind_when_stopped", lambda: None)
    flags = [*QUICK, "--repeats=5", "--learners=1", "--actors=0,1", f"--results={tmp_path}"]
    assert main(flags) == 130
    found = json.loads((tmp_path / "scaleup.json").read_text())
    assert [case["steps_per_second"] for case in found["cases"]] == [[100.0, 100.0]] * 2
    assert found["how"].startswith("2 turns; ")
    assert (tmp_path / "scaleup.png").exists()


def test_actors_feed_a_learner(tmp_path, capsys):
    flags = ["--learners=1", "--actors=1", "--envs_per_actor=4", "--batch_size=4"]
    assert main([*QUICK, *flags, f"--results={tmp_path}"]) == 0
    [case] = json.loads((tmp_path / "scaleup.json").read_text())["cases"]
    assert case["actors_of_each"] == 1 and case["steps_per_second"][0] > 0


def test_actors_fill_the_batch_of_their_learner_and_share_the_cores(tmp_path):
    chosen = parse([*QUICK, "--learners=2", "--actors=2", "--algorithm=ppo", "--batch_size=8"])
    case = here.Here(Case(2, 2), chosen, tmp_path)
    actor = case._actor(3, 9001)
    assert "--envs_per_actor=4" in actor and "--actors_on_host=4" in actor
    assert "--envs_per_actor=4" in case._learner(0, tmp_path)


@pytest.mark.parametrize(
    ("visible", "dealt"),
    [(None, ["GPU-a", "GPU-b", "GPU-a"]), ("5,7", ["5", "7", "5"]), ("3", ["3"] * 3),
     ("", ["-1"] * 3), ("NoDevFiles", ["-1"] * 3)],
)  # fmt: skip
def test_learners_have_the_gpus_that_may_be_used(visible, dealt, tmp_path, monkeypatch):
    path_with_nvidia_smi(tmp_path, monkeypatch)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    case = here.Here(Case(3, 0), parse([*QUICK, "--learners=3"]), tmp_path)
    learners = [case._learner(number, tmp_path) for number in range(3)]
    assert [learner[1] for learner in learners] == [f"CUDA_VISIBLE_DEVICES={one}" for one in dealt]


def test_hosts_of_a_csv_are_measured(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    csv = tmp_path / "hosts.csv"
    rows = ["job,ip,tf_port,python"]
    rows += [f"{job},localhost,{free_port()},{sys.executable}" for job in ("learner", "actor")]
    csv.write_text("\n".join(rows) + "\n")
    flags = [f"--workers_csv_path={csv}", "--learners=1", "--actors=0,1", "--results=out"]
    assert main([*QUICK, *flags, "--envs_per_actor=4", "--batch_size=4"]) == 0
    cases = json.loads((tmp_path / "out" / "scaleup.json").read_text())["cases"]
    assert [case["actors_of_each"] for case in cases] == [0, 1]
    assert all(case["steps_per_second"][0] > 0 for case in cases)


@pytest.mark.parametrize("failure", [Failed("no"), UserError("no"), KeyboardInterrupt()])
def test_a_start_that_fails_half_way_leaves_no_team_running(failure, monkeypatch, tmp_path):
    rows = [
        hosts_csv.Row(line, job, "localhost", 18000 + line)
        for line, job in enumerate(("learner", "learner", "actor", "actor"))
    ]
    started: list[Any] = []
    stopped: list[Any] = []

    def start(plan, *_, **__):
        if started:
            raise failure
        started.append(plan.logdir)
        return 0

    monkeypatch.setattr(hosts.starting, "start", start)
    monkeypatch.setattr(hosts.record, "must_read", lambda logdir: logdir)
    monkeypatch.setattr(hosts.stopping, "stop", lambda logdir, *_: stopped.append(logdir))
    chosen = parse([*QUICK, "--learners=2", "--actors=1"])
    case = Case(2, 1, apart=True)
    with pytest.raises(type(failure)), hosts.OnHosts(case, chosen, rows, str(tmp_path / "run")):
        raise AssertionError("nothing to measure")
    assert len(started) == 1 and stopped == started


@pytest.mark.parametrize("failure", [None, KeyboardInterrupt()])
def test_what_could_not_be_stopped_is_told_with_the_command(failure, monkeypatch, tmp_path, capsys):
    rows = [hosts_csv.Row(line, "learner", "localhost", 18000 + line) for line in range(2)]

    def stop(*_):
        print("Not stopped:")
        return 1

    monkeypatch.setattr(hosts.starting, "start", lambda *_, **__: 0)
    monkeypatch.setattr(hosts.record, "must_read", lambda logdir: logdir)
    monkeypatch.setattr(hosts.stopping, "stop", stop)
    chosen = parse([*QUICK, "--learners=2"])
    with (
        pytest.raises(type(failure) if failure else Failed) as raised,
        hosts.OnHosts(Case(2, 0, apart=True), chosen, rows, str(tmp_path / "run")),
    ):
        shown = capsys.readouterr().err
        if failure:
            raise failure
    told = capsys.readouterr().out if failure else str(raised.value)
    assert told.count("Not stopped:") == 2
    for number in range(2):
        logdir = tmp_path / f"run-{number}"
        assert f"on its hosts: {logdir}" in shown
        assert f"run_experiment_mm_raw.py --action=stop --logdir={logdir}" in told


class Waits:
    """A case whose reports come one by one; how long they were waited for is added up."""

    def __init__(self):
        self.seconds, self.rows = 0.0, []

    def reports(self):
        self.rows.append({"steps_per_second": 7.0})
        return [self.rows]

    def wait(self, until, seconds):
        self.seconds += seconds


def test_learners_end_by_themselves_but_not_before_they_are_measured():
    chosen, waits = parse([*QUICK, "--actors=0", "--start_timeout_s=20"]), Waits()
    assert cases.rate(waits, chosen) == 7.0
    flags = cases.training_flags(chosen, 0)
    assert flags["stop_after_s"] >= waits.seconds + 20 * max(chosen.learners)


def plans_of(case, chosen, rows, logdir):
    made = hosts.OnHosts(case, chosen, rows, str(logdir))
    made._connections.close()
    return made._plans


def test_learners_apart_have_the_cores_and_gpus_of_learners_together(tmp_path):
    rows = [
        hosts_csv.Row(1, "learner", "localhost", 18000, count=2, cuda_visible_devices="2,3"),
        hosts_csv.Row(2, "actor", "localhost", 18010, count=2),
    ]
    chosen = parse([*QUICK, "--learners=2", "--actors=1"])
    apart = plans_of(Case(2, 1, apart=True), chosen, rows, tmp_path / "run")
    actors = [one for plan in apart for one in plan.processes if one.job == "actor"]
    assert len(actors) == 2
    for actor in actors:
        shared = [word for word in actor.argv if word.startswith("--actors_on_host")]
        assert shared == ["--actors_on_host=2"]
    gpus = [("CUDA_VISIBLE_DEVICES", number) for number in "23"]
    learners = [one for plan in apart for one in plan.processes if one.job == "learner"]
    assert [one.env for one in learners] == [(gpu,) for gpu in gpus]
    [together] = plans_of(Case(2, 1), chosen, rows, tmp_path / "run")
    [mpirun] = [one for one in together.processes if one.job == "learner"]
    assert [f"{name}={number}" for name, number in gpus] == [
        word for word in mpirun.argv if word.startswith("CUDA_VISIBLE_DEVICES")
    ]


def test_learners_on_hosts_are_reached_as_the_ssh_configuration_says(tmp_path):
    config = tmp_path / "config"
    config.write_text("Host gpu*\n  ProxyJump bastion\n")
    rows = [hosts_csv.Row(line, "learner", f"gpu{line}", 18000, ssh_port=22) for line in (1, 2)]
    chosen = parse([*QUICK, "--learners=2", "--actors=0", f"--ssh_config={config}"])
    [plan] = plans_of(Case(2, 0), chosen, rows, tmp_path / "run")
    [_, (_, written)] = plan.spread.files
    assert written.count("ProxyJump") == 2 and "bastion" in written and str(config) in written


def test_what_a_killed_benchmark_has_started_ends_with_it(tmp_path):
    code = (
        "import pathlib, sys, time; from benchmarks.whole.scaleup.processes import Processes;"
        "started = Processes(pathlib.Path(sys.argv[1])); started.start('one', ['sleep', '600']);"
        "print(started.tree('one')[0].pid, flush=True); time.sleep(600)"
    )
    with killed(code, tmp_path) as said:
        one = psutil.Process(int(said))
        assert one.is_running()
    assert psutil.wait_procs([one], timeout=60)[1] == []


def test_a_measurement_that_is_terminated_ends_as_one_that_fails(tmp_path, monkeypatch):
    chosen = parse([*QUICK, "--learners=1", "--actors=0"])
    before = signal.getsignal(signal.SIGTERM)
    ended = []
    monkeypatch.setattr(scaleup, "Here", lambda *_: contextlib.ExitStack())
    try:
        with pytest.raises(SystemExit), scaleup.started(Case(1, 0), chosen, []) as running:
            cast(Any, running).callback(lambda: ended.append(True))
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ended == [True]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--learners=0"], "--learners=0: expected numbers from 1, separated by commas."),
        (["--actors=a"], "--actors=a: expected numbers from 0, separated by commas."),
        (["--learner=1"], "there is no flag --learner"),
        (["--agent_name=Typo"], "--agent_name=Typo is not known"),
        (["--level_name=Typo"], "--level_name: there is no level 'Typo'"),
        (["--actors=0,1", "--level_name=CartPole-v1,Acrobot-v1"], "--actors=1 has 1 actor, and"),
        (["--algorithm=simple"], "--algorithm=simple is a program of trainings on one machine"),
        (["--transport=secure"], "--transport=secure: the benchmark gives its processes no"),
        (["--algorithm=a3c"], "--learners=1,2: on this machine learners train together under"),
    ],
)
def test_a_mistake_is_one_line(flags, words, capsys):
    assert main(flags) == 2
    told = capsys.readouterr().err
    assert words in told and told.count("\n") == 1


def test_a_csv_with_too_few_hosts_is_told_before_anything_starts(tmp_path, capsys):
    csv = tmp_path / "hosts.csv"
    csv.write_text("job,ip,tf_port\nlearner,localhost,8001\n")
    flags = [f"--workers_csv_path={csv}", f"--results={tmp_path}"]
    assert main([*QUICK, *flags, "--learners=2"]) == 2
    assert "has 1 learners; --learners and --actors need 2" in capsys.readouterr().err


@pytest.mark.parametrize("gpus", ["", "-1"])
def test_learners_that_share_a_host_need_gpus_of_their_own(gpus, tmp_path, capsys):
    csv = tmp_path / "hosts.csv"
    rows = [f"learner,localhost,8001,{gpus}", "learner,localhost,8002,1"]
    csv.write_text("\n".join(["job,ip,tf_port,cuda_visible_devices", *rows]) + "\n")
    flags = [f"--workers_csv_path={csv}", f"--results={tmp_path}"]
    assert main([*QUICK, *flags, "--learners=2"]) == 2
    told = capsys.readouterr().err
    assert "line 2 has one of 2 learners on localhost, without" in told and told.count("\n") == 1
    hosts.check_rows([Case(1, 0)], hosts_csv.read(csv))
