"""Learners and actors started by hand with the documented flags learn and stay equal."""

import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.tools.ports import free_port
from tests.trainer.cluster import alone, experiment, mpirun
from trainer.storage.records import read_metrics

# A random policy lasts for 22 steps on average.
LEARNED = 45.0
# The README's command, but shorter and with frequent reports.
CARTPOLE = [
    "--level_name=CartPole-v1",
    # They end when they have learned; if they do not, after these frames.
    f"--stop_at_return={LEARNED + 1}",
    "--total_environment_frames=150000",
    "--replay_share=0",
    "--report_every_s=0.5",
    "--env_threads=1",
]
EQUAL = re.compile(
    r"The weights of the 2 learners were bit-identical in all \d+ comparisons, the last one after "
    r"([\d,]+) updates\."
)

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.xdist_group("trainer cluster"),
]


def learner(logdir: Path, port: int, actors: list[int]) -> list[str]:
    """A learner's command as users write it."""
    hosts = ",".join(f"localhost:{port}" for port in actors)
    own = [f"--learner_host=localhost:{port}", f"--actor_hosts={hosts}", f"--logdir={logdir}"]
    return experiment("--job_name=learner", "--task=0", *own, *CARTPOLE)


def actor(task: int, port: int) -> Any:
    own = [f"--task={task}", f"--learner_host=localhost:{port}"]
    return alone("--job_name=actor", *own, *CARTPOLE)


def assert_learned(logdir: Path) -> None:
    rows = read_metrics(logdir)
    assert rows[-1]["mean_episode_return"] > LEARNED, rows[-1]
    assert rows[-1]["episodes"] > 100


# The test below has all of it, with one learner more.
@pytest.mark.extras
def test_a_learner_and_two_actors(tmp_path):
    port = free_port()
    with (
        alone(*learner(tmp_path, port, [9001, 9002])[1:]) as learning,
        actor(0, port) as zero,
        actor(1, port) as one,
    ):
        assert learning.wait(300) == 0, learning.output()
        assert "waiting for 2 actors at" in learning.output()
        assert "Ended: the mean return is" in learning.output()
        for process in (zero, one):
            assert process.wait(30) == 0 and "has finished" in process.output()
    assert_learned(tmp_path)


def test_two_learners_under_mpirun_and_three_actors_have_equal_weights(tmp_path):
    ports = [free_port(), free_port()]
    programs = [
        learner(tmp_path, ports[0], [9001, 9003]),
        learner(tmp_path, ports[1], [9002]),
    ]
    with (
        mpirun(programs) as learning,
        actor(0, ports[0]) as zero,
        actor(1, ports[1]) as one,
        actor(2, ports[0]) as two,
    ):
        assert learning.wait(300) == 0, learning.output()
        assert "waiting for 2 actors at" in learning.output()
        assert "Ended: the mean return is" in learning.output()
        found = EQUAL.search(learning.output())
        assert found, learning.output()
        assert int(found[1].replace(",", "")) >= 100
        assert found[0] in (tmp_path / "train.log").read_text()
        for process in (zero, one, two):
            assert process.wait(30) == 0 and "has finished" in process.output()
    assert_learned(tmp_path)
