"""What holds for all tests."""

import signal
from collections.abc import Iterator

import hypothesis
import pytest

from tests.docker.builder import Builder, built_images

# A machine that others use, too, may take any time for an example.
hypothesis.settings.register_profile("without deadlines", deadline=None)
hypothesis.settings.load_profile("without deadlines")

# A shell that runs the tests in the background has them, and all that they start, ignore Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def built() -> Iterator[Builder]:
    """The images of docker/, for tests that are marked so: they take minutes."""
    with built_images() as builder:
        yield builder
