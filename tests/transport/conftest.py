"""Each way to carry what learners and actors say to each other."""

import socket
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


@pytest.fixture
def ipv6_port() -> int:
    """A free port of the loopback of IPv6."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
            return probe.getsockname()[1]
    except OSError:
        pytest.skip("there is no IPv6 here")
