"""What benchmarks share: flags that are refused in one line, turns, rates, and reports."""

import json
import sys
import time

import pytest

from benchmarks.tools import common
from benchmarks.tools.common import Options, numbers, parse, rate, spread
from benchmarks.tools.report import Column, Report
from checkout import typed
from tests.trainer.disks import files_limited_to
from trainer.machine import provenance
from trainer.settings.config import Settings
from user_error import UserError


def test_the_trainers_flags_are_passed_on_where_a_benchmark_wants_them(tmp_path):
    flags = [f"--results={tmp_path}", "--seed=7", "--repeats=2", "--unroll_length=30"]
    options, settings = parse(Options, "some", "What it does.", flags, trainer=True)
    assert (options.repeats, options.seed) == (2, 7)
    assert (settings.actors.unroll_length, settings.program.seed) == (30, 7)
    with pytest.raises(UserError, match="--unroll_length"):
        parse(Options, "some", "What it does.", flags)


@pytest.mark.parametrize(
    ("flag", "told"),
    [
        ("--repeats=0", "--repeats=0: must be 1 or more"),
        ("--repeat=3", "no flag --repeat. Did you mean --repeats"),
        ("--results=/dev/null/x", "--results=/dev/null/x: cannot be written"),
        ("--batch_size=0", "--batch_size=0: must be 1 or more"),
        ("--logdir=x", "no flag --logdir"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_measured(flag, told, tmp_path):
    with pytest.raises(UserError, match=told):
        parse(Options, "some", "What it does.", [f"--results={tmp_path}", flag], trainer=True)


def test_help_tells_what_is_measured(capsys):
    with pytest.raises(SystemExit):
        parse(Options, "some", "What it does.\n\n  python -m benchmarks some", ["--help"])
    text = capsys.readouterr().out
    assert f"usage: {typed(sys.executable)} -m benchmarks some" in text and "What it does." in text


def test_a_mistake_is_one_line_and_exit_code_2(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["some"])

    def refuse(arguments):
        raise UserError("not so.")

    assert common.run("some", refuse) == 2
    assert capsys.readouterr().err == "benchmarks some: not so.\n"


@pytest.mark.parametrize("text", ["", "a", "1,,2", "1,0"])
def test_lists_of_numbers_are_checked(text):
    with pytest.raises(UserError, match="--threads="):
        numbers("threads", text)


def test_everybody_takes_turns_and_the_first_turn_is_left_out():
    order = []

    def measure(name):
        def turn():
            order.append(name)
            return float(len(order))

        return turn

    found = common.in_turns({"a": measure("a"), "b": measure("b")}, repeats=2)
    assert order == ["a", "b"] * 3
    assert found == {"a": [3.0, 5.0], "b": [4.0, 6.0]}


def test_turns_that_all_have_finished_are_written_whatever_ends_them():
    written: list[dict[str, list[float]]] = []
    found = {"a": [1.0, 2.0, 3.0], "b": [4.0, 5.0]}
    with pytest.raises(SystemExit), common.whole_turns(found, written.append):
        raise SystemExit(143)
    with common.whole_turns({"a": [1.0]}, written.append):
        pass
    with pytest.raises(UserError), common.whole_turns({"a": [1.0], "b": []}, written.append):
        raise UserError("no")
    assert written == [{"a": [1.0, 2.0], "b": [4.0, 5.0]}, {"a": [1.0]}]
    with pytest.raises(SystemExit), common.whole_turns(found, written.append, warm_up=1):
        raise SystemExit(143)
    with common.whole_turns({"a": [1.0]}, written.append, warm_up=1):
        pass
    assert written[2:] == [{"a": [2.0], "b": [5.0]}]


def test_a_rate_adds_up_what_is_done_at_the_same_time():
    def work():
        time.sleep(0.01)
        return 3

    # Each call takes a hundredth of a second or more, so one thread cannot do more than 300.
    assert 0 < rate([work], 0.1) <= 300
    assert 0 < rate([work, work], 0.1) <= 600


@pytest.mark.parametrize("first", [True, False])
def test_a_call_that_fails_in_any_thread_says_why_and_ends_the_others(first):
    def fail():
        raise UserError("the level has failed.")

    calls = [fail, lambda: 1] if first else [lambda: 1, fail]
    with pytest.raises(UserError, match="the level has failed"):
        rate(calls, 0.01 if not first else 1000.0)


@pytest.mark.parametrize(
    ("changes", "environments"),
    [
        ({"level_name": "CartPole-v1", "batch_size": 32}, 10),  # of 32 unrolls, 8 are new
        ({"level_name": "CartPole-v1", "batch_size": 32, "replay_share": 0.0}, 22),
        ({"level_name": "CartPole-v1", "algorithm": "a2c", "batch_size": 32}, 16),
        ({"level_name": "CartPole-v1", "envs_per_actor": 5}, 5),
    ],
)
def test_actors_of_a_cluster_play_as_many_environments_as_they_would_by_themselves(
    changes, environments
):
    settings = common.in_a_cluster(Settings(**changes), 2)
    assert settings.actors.envs_per_actor == environments
    assert settings.actors.actors_on_host == 2


def test_a_report_is_a_table_a_file_of_json_and_a_picture(tmp_path, capsys):
    columns = (Column("what", 8), Column("rate", 20, ",.0f"), Column("share", 8, ".1%"))
    options = Options(results=str(tmp_path))
    report = Report("some", columns, options, "float32", "some work")
    report.row("one", spread([1000.0, 3000.0, 2000.0]), 0.5)
    report.row("two", None, None)
    report.finish("rate", wanted=2500, bound=spread([1.0]))
    machine, what, _, head, *rows = capsys.readouterr().out.splitlines()
    assert machine.endswith("float32") and provenance.machine() in machine
    assert what == "some work"
    assert head.split() == ["what", "rate", "share"]
    assert rows[0].split() == ["one", "2,000", "(1,000–3,000)", "50.0%"]
    assert rows[1].split() == ["two", "–", "–"]
    kept = json.loads((tmp_path / "some.json").read_text())
    assert kept["rows"][0]["rate"]["values"] == [1000.0, 3000.0, 2000.0]
    assert kept["rows"][1] == {"what": "two", "rate": None, "share": None}
    assert kept["machine"] == machine and kept["bound"]["median"] == 1.0
    assert (tmp_path / "some.png").read_bytes().startswith(b"\x89PNG")


def test_a_report_on_a_full_disk_is_a_line_and_costs_no_earlier_one(tmp_path, monkeypatch, capsys):
    def measure(arguments):
        options, _ = parse(Options, "some", None, arguments)
        report = Report("some", (Column("rate", 8, ",.0f"),), options, "float32", "some work")
        report.row(1.0)
        report.finish("rate")

    monkeypatch.setattr("sys.argv", ["some", f"--results={tmp_path}"])
    monkeypatch.setattr(common, "unwind_when_stopped", lambda: None)
    assert common.run("some", measure) == 0
    earlier = (tmp_path / "some.json").read_text()
    for size, full in ((100, "some.json"), (2000, "some.png")):
        with files_limited_to(size):
            assert common.run("some", measure) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert f"{tmp_path / full} cannot be written" in line
    assert json.loads(earlier)["rows"] == json.loads((tmp_path / "some.json").read_text())["rows"]
    assert (tmp_path / "some.png").read_bytes().endswith(b"IEND\xaeB`\x82")


def test_actors_of_a_cluster_are_set_up_as_the_frontend_does_it():
    two = common.in_a_cluster(Settings(algorithm="ppo"), 2).actors
    assert (two.envs_per_actor, two.actors_on_host) == (4, 2)
    given = common.in_a_cluster(Settings(envs_per_actor=5, actors_on_host=3), 2).actors
    assert (given.envs_per_actor, given.actors_on_host) == (5, 3)
    any_number = common.in_a_cluster(Settings(algorithm="ppo"), 0).actors
    assert (any_number.envs_per_actor, any_number.actors_on_host) == (8, 1)


def test_a_level_that_no_actor_of_a_cluster_would_play_is_refused():
    settings = Settings(level_name="CartPole-v1,Acrobot-v1,MountainCar-v0")
    with pytest.raises(UserError, match="--actors=2 has 2 actors, .* MountainCar-v0 would never"):
        common.in_a_cluster(settings, 2)
