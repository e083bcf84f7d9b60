"""What holds for all tests."""

import os
import signal
from collections.abc import Iterator

import hypothesis
import pytest

from benchmarks.tools import ports
from tests.docker.builder import Builder, built_images

# Most of a compiler's time would go into optimising what is compiled for a few calls. Before
# TensorFlow is imported, which reads it; processes that tests start have it, too.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
)
# TensorFlow sets it to 1 where it is imported first, and processes that tests start would print
# warnings that a user's do not.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# A machine that others use, too, may take any time for an example.
hypothesis.settings.register_profile("without deadlines", deadline=None)
hypothesis.settings.load_profile("without deadlines")

# A shell that runs the tests in the background has them, and all that they start, ignore Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests that run side by side start learners at ports of their own, again and again.
ports.share = (
    int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")),
    int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")),
)


@pytest.fixture(scope="session")
def built() -> Iterator[Builder]:
    """The images of docker/, for tests that are marked so: they take minutes."""
    with built_images() as builder:
        yield builder
