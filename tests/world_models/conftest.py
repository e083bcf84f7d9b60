"""A finished run that several tests look at."""

from pathlib import Path

import pytest

import experiment
from tests.world_models.catch_model import flags


@pytest.fixture(scope="session")
def run(tmp_path_factory) -> Path:
    """A finished run of each phase, with the stochastic model; tests leave it as it is."""
    folder = tmp_path_factory.mktemp("simple") / "run"
    assert experiment.main(flags(folder, world_model="stochastic_discrete")) == 0
    return folder
