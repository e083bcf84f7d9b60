"""A second algorithm learns without changes elsewhere, with every transport."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.tools.ports import free_port
from tests.trainer.cluster import alone, experiment
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
LEARNED = 60.0

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("trainer cluster")]


def assert_learned(logdir: Path) -> None:
    last = read_metrics(logdir)[-1]
    assert last["environment_frames"] >= 80_000
    assert last["mean_episode_return"] > LEARNED, last
    assert last["squared_error"] >= 0 and "entropy" not in last


def test_it_learns_in_one_process_resumes_and_plays(tmp_path):
    logdir = f"--logdir={tmp_path}"
    with alone(*experiment(logdir, *FLAGS)[1:]) as training:
        assert training.wait(240) == 0, training.output()
        assert "squared error" in training.output()
    assert_learned(tmp_path)
    found = Store(tmp_path / "checkpoints", keep=5).newest(pytest.fail)
    assert found is not None
    checkpoint = found[1]
    assert any(np.any(array) for array in checkpoint.algorithm.values())
    with alone(*experiment(logdir, *FLAGS, "--total_environment_frames=81000")[1:]) as resumed:
        assert resumed.wait(120) == 0, resumed.output()
        assert "at 80," in resumed.output()
    playing = experiment("--mode=test", "--test_num_episodes=3", logdir)[1:]
    with alone(*playing) as player:
        assert player.wait(120) == 0, player.output()
    with alone(*experiment(logdir, "--level_name=CartPole-v1")[1:]) as other:
        assert other.wait(60) == 2
        assert "--algorithm=impala does not fit the run in" in other.output()


@pytest.mark.parametrize("transport", ["tensorflow", "secure"])
def test_it_learns_from_an_actor_in_another_process(transport, tmp_path):
    port = free_port()
    common = [*FLAGS, f"--learner_host=localhost:{port}", f"--transport={transport}"]
    logdir = f"--logdir={tmp_path}"
    with alone(*experiment("--job_name=learner", logdir, *common)[1:]) as learning:
        learning.wait_for("waiting for")
        with alone(*experiment("--job_name=actor", logdir, *common)[1:]) as acting:
            assert learning.wait(240) == 0, learning.output()
            assert acting.wait(30) == 0, acting.output()
    assert_learned(tmp_path)
