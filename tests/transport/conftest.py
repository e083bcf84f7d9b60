"""Each way to carry what learners and actors say to each other."""

import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.transport.ends import Actor, Learner, Plain, Secure, running


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


@pytest.fixture
def learner() -> Iterator[Learner]:
    """One that goes on whatever happens: at the end, an actor of its own is served."""
    made = Learner()
    with running(made):
        made.receiver.publish([np.zeros(3, np.float32)], 0)
        yield made
        with running(actor := Actor(made, "actor")):
            assert actor.put([7])
            assert made.take(1) == [7]
