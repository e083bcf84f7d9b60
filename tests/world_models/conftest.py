"""A finished run that several tests look at."""

from pathlib import Path

import pytest

import experiment
from tests.world_models.catch_model import flags
from trainer.team import joining


def in_one_piece(patched: pytest.MonkeyPatch) -> None:
    """Does not cut batches for several cores: to make graphs is most of what these tests do.

    Processes of their own do cut them, and test_training.py compares the two.
    """
    patched.setattr(joining, "pieces", lambda _: 1)


@pytest.fixture(autouse=True)
def one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test's batches are whole."""
    in_one_piece(monkeypatch)


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of each phase, with the stochastic model; tests leave it as it is."""
    folder = tmp_path_factory.mktemp("simple") / "run"
    with pytest.MonkeyPatch.context() as patched:
        in_one_piece(patched)
        assert experiment.main(flags(folder, world_model="stochastic_discrete")) == 0
    return folder
