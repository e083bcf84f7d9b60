"""A second algorithm learns without changes elsewhere, and trains with each transport."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.tools.ports import free_port
from experiment import main
from tests.trainer.cluster import TRANSPORTS, alone, experiment
from trainer.programs import local
from trainer.storage.checkpoints import Store
from trainer.storage.records import read_metrics

FLAGS = [
    "--algorithm=tests.algorithms.tiny_q:TinyQSettings",
    "--level_name=CartPole-v1",
    "--total_environment_frames=80000",
    "--learning_rate=0.002",
    "--gradients_clipping=10",
    "--report_every_s=0.5",
    "--env_threads=1",
]
# A random policy lasts for 22 steps on average.
LEARNED = 45.0
ENOUGH, REACHED = f"--stop_at_return={LEARNED + 1}", "Ended: the mean return is"

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("trainer cluster")]


def assert_learned(logdir: Path) -> int:
    """Asserts that it has learned; returns after how many frames."""
    last = assert_reports_its_own(logdir)
    assert last["mean_episode_return"] > LEARNED, last
    return last["environment_frames"]


def assert_reports_its_own(logdir: Path) -> dict[str, Any]:
    """Asserts that the last report has its figures and none of other algorithms; returns it."""
    last = read_metrics(logdir)[-1]
    assert last["squared_error"] >= 0 and "entropy" not in last
    return last


def test_it_learns_in_one_process_resumes_and_plays(tmp_path, monkeypatch, capsys):
    # TensorFlow's threads cannot change any more.
    monkeypatch.setattr(local.cores, "divide", lambda **_: 1)
    logdir = f"--logdir={tmp_path}"
    assert main([logdir, *FLAGS, ENOUGH]) == 0
    printed = capsys.readouterr().out
    assert "squared error" in printed and REACHED in printed
    learned_at = assert_learned(tmp_path)
    found = Store(tmp_path / "checkpoints", keep=5).newest(pytest.fail)
    assert found is not None
    checkpoint = found[1]
    assert any(np.any(array) for array in checkpoint.algorithm.values())
    assert main([logdir, *FLAGS, f"--total_environment_frames={learned_at + 1000}"]) == 0
    printed = capsys.readouterr().out
    assert f"at {learned_at:,}" in printed and "Ended: all frames are played" in printed
    assert main(["--mode=test", "--test_num_episodes=3", logdir]) == 0
    capsys.readouterr()
    assert main([logdir, "--level_name=CartPole-v1"]) == 2
    assert "--algorithm=impala does not fit the run in" in capsys.readouterr().err


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_it_trains_with_an_actor_in_another_process(transport, tmp_path):
    where = [f"--learner_host=localhost:{free_port()}", f"--transport={transport}"]
    common = [f"--logdir={tmp_path}", *FLAGS, "--total_environment_frames=4000", *where]
    with alone(*experiment("--job_name=learner", *common)[1:]) as learning:
        learning.wait_for("waiting for")
        with alone(*experiment("--job_name=actor", *common)[1:]) as acting:
            assert learning.wait(240) == 0, learning.output()
            assert acting.wait(30) == 0, acting.output()
            assert "Ended: all frames are played" in learning.output()
    assert_reports_its_own(tmp_path)
