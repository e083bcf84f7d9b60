"""Whose cores a learner and its actors take."""

import pytest

from impala import carriers, config


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
    assert carriers.on_one_machine(config.parse(flags)) is shared
