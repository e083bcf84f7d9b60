"""Each way to carry what learners and actors say to each other."""

from pathlib import Path

import pytest

from tests.transport.ends import Learner, Plain, Secure


@pytest.fixture
def secure_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Secure:
    """Makes all learners and actors of a test talk over TLS."""
    carrier = Secure(tmp_path / "credentials")
    monkeypatch.setattr(Learner, "carrier", carrier)
    return carrier


@pytest.fixture(params=["tensorflow", "secure"])
def carrier(request: pytest.FixtureRequest) -> Plain | Secure:
    """What carries what the ends of a test say: one after the other."""
    return Plain() if request.param == "tensorflow" else request.getfixturevalue("secure_ends")
