"""Horovod as bin/setup builds it: two real processes under mpirun."""

import os
import subprocess
import sys

PROGRAM = """
import horovod.tensorflow as hvd
import tensorflow as tf

hvd.init()
assert hvd.size() == 2 and hvd.mpi_built() and hvd.gloo_built()

mine = tf.fill([3], float(hvd.rank() + 1))
total = hvd.allreduce(mine, op=hvd.Sum)
mean, also = hvd.grouped_allreduce([mine, mine * 2], op=hvd.Average)
first = hvd.broadcast(mine, root_rank=0)
print("rank", hvd.rank(), *(tensor.numpy().tolist() for tensor in (total, mean, also, first)))
"""


def test_two_processes_reduce_and_broadcast():
    mpirun = ["mpirun", "-np", "2", "--oversubscribe", "-bind-to", "none"]
    result = subprocess.run(
        [*mpirun, sys.executable, "-c", PROGRAM],
        env=os.environ
        | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        | {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert result.returncode == 0, result.stderr
    values = "[3.0, 3.0, 3.0] [1.5, 1.5, 1.5] [3.0, 3.0, 3.0] [1.0, 1.0, 1.0]"
    told = [line for line in result.stdout.splitlines() if line.startswith("rank")]
    assert sorted(told) == [f"rank 0 {values}", f"rank 1 {values}"]
