"""The parts of a training are measured in processes of their own, on one core and on all."""

import json
import os

import psutil
import pytest

from benchmarks.parts import components
from benchmarks.tools import ways
from benchmarks.tools.common import spread
from benchmarks.tools.ways import Measured, Way, all_ways, best, bound
from tests.benchmarks.whole.stopping import killed, stopped_at
from tests.cluster.conftest import wait_for
from trainer.machine.quota import usable_cores
from user_error import UserError

TINY = ["--level_name=CartPole-v1", "--envs_per_actor=2", "--num_actors=1", "--batch_size=2"]
QUICK = ["--repeats=1", "--seconds=0.05", "--unroll_length=3"]


def measured(way, **rates):
    rates = {part: spread([rate]) for part, rate in rates.items()}
    return Measured(Way(way, 1, 1, 1), "Agent", "float32", 2, 6, {"block": 100}, rates)


def test_the_bound_is_what_the_better_way_of_each_part_allows():
    ways = [
        measured("one call", emulation=6000, inference=10_000, learning=4000),
        measured("two calls", emulation=5000, inference=12_000, learning=4000),
    ]
    assert best(ways, "emulation")[0].name == "one call"
    assert best(ways, "inference")[0].name == "two calls"
    assert bound(ways) == pytest.approx(2000)


def test_the_better_way_is_told_by_all_that_was_measured():
    parts = {"emulation": 6000, "inference": 10_000}
    usual = [measured("one call", **parts, learning=4000)] * 3
    lucky = measured("two calls", **parts, learning=4100)
    unlucky = [measured("two calls", **parts, learning=3000)] * 3
    now = [usual[0], lucky]
    assert bound(now) > bound([usual[0]])
    assert bound(now, [*now, *usual, *unlucky]) == pytest.approx(bound([usual[0]]))


def test_with_one_core_there_is_one_way(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5})
    assert [way.cores for way in all_ways()] == [1]
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 7})
    assert [(way.threads, way.callers, way.cores) for way in all_ways()] == [
        (1, 1, 1),
        (3, 1, 3),
        (1, 3, 3),
    ]
    assert [way.threads for way in all_ways([2, 3])] == [1, 2, 3, 1]


@pytest.mark.timeout(600)
def test_every_part_has_its_rate(tmp_path, monkeypatch, capsys):
    def sent(settings, measured, actors, *_):
        """What the benchmark of transport measures for the plan of this machine, too."""
        assert measured.sizes["block"] > 0 and measured.environments == 2
        assert measured.batch_steps == 3  # of two unrolls of three steps, one is new
        return {"tensorflow": spread([100.0 * actors]), "secure": spread([50.0 * actors])}

    monkeypatch.setattr(components, "between_processes", sent)
    components.measure([*TINY, *QUICK, "--actors=1,2", f"--results={tmp_path}"])
    found = json.loads((tmp_path / "components.json").read_text())
    rows = {(row["part"], row["cores"]): row["agent steps/s"] for row in found["rows"]}
    parts = {part for part, _ in rows}
    assert parts == {
        *("emulation", "inference", "acting", "learning", "bound"),
        *components.MULTIPLYING,
        *("transport, in one process", "transport, tensorflow", "transport, secure"),
    }
    assert len([part for part, _ in rows if part == "learning"]) == len(all_ways())
    assert rows["transport, secure", "all cores, 2 actors"]["median"] == 100
    assert found["bound"] == rows["bound", "all cores"] > 0
    assert all(rate["least"] > 0 for key, rate in rows.items() if key[0] != "bound")
    assert found["machine"].endswith(("float32", "bfloat16"))
    assert (tmp_path / "components.png").exists()
    assert f"{usable_cores()} core" in capsys.readouterr().out


@pytest.mark.parametrize(("number", "names"), [(2, ["one"]), (4, ["one", "two", "three"])])
def test_what_was_measured_is_written_when_it_is_stopped(number, names, tmp_path, monkeypatch):
    result = measured("one", emulation=6000, inference=10_000, learning=4000)
    todo = [Way(name, 1, 1, usable_cores()) for name in ("one", "two", "three")]
    stopped = stopped_at(number, result)
    monkeypatch.setattr(ways, "all_ways", lambda threads: todo)
    monkeypatch.setattr(ways, "measure", lambda settings, way, *_: stopped()._replace(way=way))
    monkeypatch.setattr(components, "between_processes", stopped)
    with pytest.raises(KeyboardInterrupt):
        components.measure([*TINY, f"--results={tmp_path}"])
    kept = json.loads((tmp_path / "components.json").read_text())
    assert [row["cores"] for row in kept["rows"] if row["part"] == "learning"] == names


# A part that would go on for long.
PART = """
import os, pathlib, sys
from benchmarks.parts import components
from benchmarks.tools import ways
folder = pathlib.Path(sys.argv[1])
sys.executable = str(folder / "python")
print("ready", flush=True)
{starts}
"""
PYTHON = "#!/bin/sh\necho $$ > {folder}/pid\nexec sleep 600\n"


@pytest.mark.parametrize(
    "starts",
    [
        "ways._printed('measure_parts', [], os.sched_getaffinity(0))",
        "components.between_processes(components.Settings(), ways.Measured("
        "ways.half_way(), '', '', 1, 1, {'block': 1}, {}), 1, 1.0, 1)",
    ],
)
def test_a_part_ends_with_a_benchmark_that_is_killed(starts, tmp_path):
    python = tmp_path / "python"
    python.write_text(PYTHON.format(folder=tmp_path))
    python.chmod(0o755)
    with killed(PART.format(starts=starts), tmp_path) as said:
        assert said == "ready"
        one = psutil.Process(wait_for(lambda: int((tmp_path / "pid").read_text())))
    assert psutil.wait_procs([one], timeout=60)[1] == []


def test_settings_that_do_not_fit_together_are_refused(tmp_path):
    with pytest.raises(UserError, match="--batch_size=0"):
        components.measure(["--batch_size=0", f"--results={tmp_path}"])


def test_a_flag_that_the_trainer_would_refuse_is_told_in_one_line(tmp_path):
    with pytest.raises(UserError, match="--agent_name=ResnetAgents is not known") as told:
        components.measure([*TINY, "--agent_name=ResnetAgents", f"--results={tmp_path}"])
    assert "\n" not in str(told.value)


def test_parts_that_do_not_exist_are_named(tmp_path):
    with pytest.raises(UserError, match="--parts=sleeping: no such part"):
        ways.measure(components.Settings(level_name="CartPole-v1"), all_ways()[0], ["sleeping"],
                     0.1, 1, str(tmp_path))  # fmt: skip
