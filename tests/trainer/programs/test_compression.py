"""Unrolls of a real training, sent compressed."""

import sys

import pytest

from tests.trainer.cluster import alone, free_address
from transport.compression import Zstd
from user_error import UserError

COMMON = [
    "--level_name=Catch-v0",
    # Pictures that are compressed, for a small network.
    "--width=10",
    "--height=10",
    "--agent_name=ResNetAgent",
    "--channels=4,4",
    "--envs_per_actor=4",
    "--unroll_length=10",
    "--batch_size=4",
    "--compression=zstd",
]


@pytest.mark.timeout(300)
@pytest.mark.xdist_group("trainer cluster")
def test_a_learner_trains_on_compressed_unrolls_and_refuses_others(tmp_path):
    address = free_address()
    common = [*COMMON, f"--learner_host={address}"]
    learner = ["--job_name=learner", f"--logdir={tmp_path}", "--total_environment_frames=400"]
    with (
        alone(*common, *learner) as learning,
        alone(*common, "--job_name=actor", "--task=1", "--compression=none") as wrong,
    ):
        assert wrong.wait(120) == 2
        differs = "compression is zstd at the learner and none at the actor"
        assert f"refuses this actor: {differs}." in wrong.output()
        with alone(*common, "--job_name=actor") as actor:
            assert learning.wait(120) == 0, learning.output()
            assert actor.wait(60) == 0
        assert differs in learning.output()


def test_without_its_package_compression_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(UserError, match="package zstandard is not installed. `bin/setup` adds it"):
        Zstd()
