"""Fixtures for each transport between learners and actors."""

import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.transport.ends import Actor, Learner, Plain, Secure, running


@pytest.fixture
def secure_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Secure:
    """Makes all learners and actors of a test use TLS."""
    carrier = Secure(tmp_path / "credentials")
    monkeypatch.setattr(Learner, "carrier", carrier)
    return carrier


@pytest.fixture(params=["tensorflow", "secure"])
def carrier(request: pytest.FixtureRequest) -> Plain | Secure:
    """The transport of a test: each in turn."""
    return Plain() if request.param == "tensorflow" else request.getfixturevalue("secure_ends")


@pytest.fixture
def ipv6_port() -> int:
    """A free port of IPv6's loopback address."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
            return probe.getsockname()[1]
    except OSError:
        pytest.skip("there is no IPv6 here")


@pytest.fixture
def learner() -> Iterator[Learner]:
    """A learner that must survive its test: at the end, it serves one more actor."""
    made = Learner()
    with running(made):
        made.receiver.publish([np.zeros(3, np.float32)], 0)
        yield made
        with running(actor := Actor(made, "actor")):
            assert actor.put([7])
            assert made.take(1) == [7]
