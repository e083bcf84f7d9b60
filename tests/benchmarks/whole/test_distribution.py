"""The benchmark of distribution runs a level in one process, and learner and actors apart."""

import json

import pytest

from benchmarks.tools import namespaces
from benchmarks.whole import distribution
from tests.benchmarks.whole.stopping import stopped_at
from tests.pictures import coloured
from user_error import UserError

pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("benchmarks")]

QUICK = ["--repeats=1", "--seconds=0.5", "--envs=2", "--batch_size=2", "--unroll_length=5"]
CASES = ["--steps_ms=1", "--kinds=waiting"]


@pytest.mark.skipif(bool(namespaces.missing()), reason=namespaces.missing())
def test_ways_stand_beside_one_process(tmp_path):
    flags = [*QUICK, *CASES, "--ways=threads,hosts", f"--results={tmp_path}"]
    distribution.measure(flags)
    alone, hosts = json.loads((tmp_path / "distribution.json").read_text())["rows"]
    assert (alone["way"], alone["of one process"]["median"]) == ("threads", 1.0)
    assert (hosts["way"], hosts["steps are"], hosts["ms a step"]) == ("hosts", "waiting", "1")
    assert hosts["agent steps/s"]["median"] > 0
    assert hosts["of one process"]["median"] == pytest.approx(
        hosts["agent steps/s"]["median"] / alone["agent steps/s"]["median"]
    )
    assert coloured(tmp_path / "distribution.png") > 0


def test_turns_that_have_ended_are_written_when_it_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(distribution, "measured", stopped_at(6, 100.0))
    with pytest.raises(KeyboardInterrupt):
        distribution.measure(
            [*CASES, "--ways=threads,actors", "--repeats=5", f"--results={tmp_path}"]
        )
    rows = json.loads((tmp_path / "distribution.json").read_text())["rows"]
    assert [row["agent steps/s"]["values"] for row in rows] == [[100.0, 100.0]] * 2
    assert (tmp_path / "distribution.png").exists()


def test_a_ratio_is_taken_in_each_turn_to_the_better_way_alone():
    cases = [distribution.Case("1", "busy", way) for way in ("threads", "process", "actors")]
    rates = dict(zip(cases, ([10.0, 30.0], [20.0, 40.0], [10.0, 60.0]), strict=True))
    assert distribution.ratio(rates, cases[2]).values == [0.5, 1.5]
    assert distribution.ratio(rates, cases[1]).values == [1.0, 1.0]


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--ways=process,mpi", "known are threads, process, actors, hosts"),
        ("--ways=actors", "expected one of threads, process to compare with"),
        ("--kinds=idle", "known are busy, waiting"),
        ("--steps_ms=1,x", "expected milliseconds, more than 0"),
        ("--steps_ms=0", "expected milliseconds, more than 0"),
        ("--observation=3", "expected dummy:OBS-FPS"),
    ],
)
def test_a_mistake_is_refused_before_anything_is_measured(flag, words, tmp_path):
    with pytest.raises(UserError, match=words):
        distribution.measure([flag, f"--results={tmp_path}"])


def test_without_root_hosts_are_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(namespaces.os, "geteuid", lambda: 1000)
    with pytest.raises(UserError, match="hosts needs root for network namespaces; --ways="):
        distribution.measure([f"--results={tmp_path}"])
