"""The whole trainer beside its parts, in real processes, as small as can be."""

import contextlib
import json
import signal
import sys
import time

import psutil
import pytest

from benchmarks.tools.common import Spread
from benchmarks.tools.trainer import Trainer, steady_rate
from benchmarks.tools.ways import BOUND_OF, Measured, full_ways
from benchmarks.whole import throughput
from tests.benchmarks.whole.stopping import stopped_at
from trainer.machine.launching import PROJECT
from trainer.settings.config import Settings
from user_error import UserError

pytestmark = pytest.mark.xdist_group("benchmarks")

TINY = ["--level_name=CartPole-v1", "--envs_per_actor=2", "--batch_size=2", "--unroll_length=5"]
QUICK = ["--repeats=1", "--part_repeats=1", "--part_seconds=0.05", "--warm_up_s=0", "--seconds=1"]


@pytest.mark.timeout(900)
# In one process there is the same but for the threads of gRPC.
@pytest.mark.parametrize("job", [pytest.param("local", marks=pytest.mark.extras), "cluster"])
def test_the_rate_reached_stands_beside_the_bound(job, tmp_path, capsys):
    throughput.measure([*TINY, *QUICK, f"--job={job}", "--actors=1", f"--results={tmp_path}"])
    found = json.loads((tmp_path / "throughput.json").read_text())
    [row] = found["rows"]
    expected = 1 / sum(1 / row[part] for part in ("emulation", "inference", "learning"))
    assert row["reached"] > 0 and row["first update, s"] > 0
    assert row["reached/bound"] == pytest.approx(row["reached"] / row["bound"])
    # The bound is the mean of those before and after; the parts are the best of both.
    assert row["bound"] <= expected * 1.001
    used = found["profile"]["used"]
    assert used["the learner's own thread"] > 0
    assert sum(used.values()) + found["profile"]["not used by the trainer"] == pytest.approx(
        found["profile"]["passed"]
    )
    assert ("gRPC threads" in used) == (job == "cluster")
    assert f"goal: {throughput.WANTED[job]:.2f}" in capsys.readouterr().out


def test_runs_that_have_ended_are_written_when_it_is_stopped(tmp_path, monkeypatch):
    rates = dict.fromkeys(BOUND_OF, Spread(100.0, 90.0, 110.0, [90.0, 100.0, 110.0]))
    part = Measured(full_ways()[0], "VectorAgent", "float32", 10, 20, {}, rates)
    monkeypatch.setattr(throughput, "measure_parts", lambda *_: [part])
    shares: dict[str, float | None] = dict.fromkeys(("lag", "learner", "actors", "cores"), 0.5)
    reached = throughput.Reached(1.0, 30.0, shares, {"the learner's own thread": 100.0})
    monkeypatch.setattr(throughput, "run_trainer", stopped_at(3, reached))
    with pytest.raises(KeyboardInterrupt):
        throughput.measure([*TINY, "--repeats=5", f"--results={tmp_path}"])
    kept = json.loads((tmp_path / "throughput.json").read_text())
    assert len(kept["rows"]) == len(kept["ratio"]["values"]) == 2 and kept["profile"]


@pytest.mark.timeout(600)
def test_a_trainer_that_ends_too_soon_is_told_with_its_words():
    settings = Settings(level_name="tests.trainer.levels:Breaks", envs_per_actor=2, batch_size=2)
    with (
        pytest.raises(UserError, match="the trainer ended with exit code") as told,
        Trainer(settings, report_every_s=0.5) as trainer,
    ):
        trainer.wait_for_update()
        trainer.run_for(100)
    assert "simulator fell over" in str(told.value)


# The parts as if they had been measured, then the trainer.
AT_THE_TRAINER = """
import sys

from benchmarks.tools import common
from benchmarks.tools.ways import BOUND_OF, Measured, full_ways
from benchmarks.whole import throughput

rates = dict.fromkeys(BOUND_OF, common.Spread(100.0, 90.0, 110.0, [90.0, 100.0, 110.0]))
part = Measured(full_ways()[0], "VectorAgent", "float32", 10, 20, {}, rates)
throughput.measure_parts = lambda *_: [part]
sys.exit(common.run("throughput", throughput.measure))
"""


@pytest.mark.timeout(600)
def test_a_benchmark_that_is_ended_ends_its_trainer(tmp_path):
    benchmark = psutil.Popen(
        [sys.executable, "-c", AT_THE_TRAINER, *TINY, *QUICK]
        + ["--seconds=1000", f"--results={tmp_path}"],
        cwd=PROJECT,
    )
    try:
        while not (started := [one for one in benchmark.children() if is_trainer(one)]):
            assert benchmark.poll() is None
            time.sleep(0.05)
        benchmark.terminate()
        assert benchmark.wait(100) == 128 + signal.SIGTERM
        assert psutil.wait_procs(started, timeout=60)[1] == []
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            benchmark.kill()


def is_trainer(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return "experiment.py" in process.cmdline()
    return False


def test_the_rate_is_that_between_two_reports():
    first = {"agent_steps": 100, "wall_time": 10.0}
    assert steady_rate(first, {"agent_steps": 400, "wall_time": 12.0}) == 150
