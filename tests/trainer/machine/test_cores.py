"""How a learner and its actors divide the cores."""

import os

import pytest
import tensorflow as tf

from trainer.machine import cores
from trainer.remote import carriers
from trainer.settings import config


@pytest.mark.parametrize(
    ("flags", "shared"),
    [
        (["--job_name=learner"], True),
        (["--job_name=actor", "--learner_host=127.0.0.1:8001"], True),
        (["--job_name=actor", "--learner_host=10.0.0.1:8001"], False),
        (["--job_name=learner", "--synthetic_unrolls"], False),
    ],
)
def test_learner_and_actors_share_cores_where_only_this_machine_reaches_them(flags, shared):
    assert carriers.on_one_machine(config.parse(flags).remote) is shared


@pytest.mark.parametrize(
    ("mine", "processes", "side_by_side", "parallel_ops", "threads"),
    [
        (1, 1, 2, 1, 1),
        (2, 1, 1, 1, 2),
        (2, 1, 2, 2, 1),
        (3, 1, 2, 2, 1),
        (16, 1, 2, 2, 8),
        (16, 4, 2, 2, 2),
        (2, 4, 2, 1, 1),
    ],
)
def test_parallel_operations_divide_a_process_s_part_of_the_cores(
    monkeypatch, mine, processes, side_by_side, parallel_ops, threads
):
    limits: list[int] = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(mine)))
    monkeypatch.setattr(tf.config.threading, "set_intra_op_parallelism_threads", limits.append)
    assert cores.divide(processes, side_by_side) == parallel_ops
    assert limits == [threads]
