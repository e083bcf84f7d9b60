"""Horovod as bin/setup builds it: two real processes under mpirun."""

import os
import subprocess
import sys

import pytest

from cluster.mpi_environment import ENVIRONMENT

PROGRAM = """
import horovod.tensorflow as hvd
import tensorflow as tf

hvd.init()
assert hvd.size() == 2 and hvd.mpi_enabled() and not hvd.gloo_built()

mine = tf.fill([3], float(hvd.rank() + 1))
total = hvd.allreduce(mine, op=hvd.Sum)
mean, also = hvd.grouped_allreduce([mine, mine * 2], op=hvd.Average)
first = hvd.broadcast(mine, root_rank=0)
found = [tensor.numpy().tolist() for tensor in (total, mean, also, first)]
assert found == [[3.0] * 3, [1.5] * 3, [3.0] * 3, [1.0] * 3], (hvd.rank(), found)
"""


# trainer/programs/test_cluster_updates.py reduces, gathers and broadcasts with it, too.
@pytest.mark.extras
def test_two_processes_reduce_and_broadcast():
    # Each process checks its own results: mpirun mixes what they print.
    mpirun = ["mpirun", "-np", "2", "--oversubscribe", "-bind-to", "none"]
    result = subprocess.run(
        [*mpirun, sys.executable, "-c", PROGRAM],
        env=os.environ | ENVIRONMENT | {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert result.returncode == 0, result.stderr
