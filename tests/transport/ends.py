"""A learner's and an actor's end of any transport, on loopback."""

import contextlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import credentials
from tests.trainer.cluster import free_address
from transport import ArraySpec, Layout, Link, Receiver, distributed, make_identity, secure

BLOCKS = Layout(ArraySpec(np.dtype(np.int64), (2, None)))
WEIGHTS = Layout([ArraySpec(np.dtype(np.float32), (3,))])
TIMEOUT_S = 2.0
MOST_BYTES = BLOCKS.size(1000)


class Plain:
    """Distributed TensorFlow."""

    # Blocks in transit while the learner takes none: one in its queue, which is then full, one
    # waiting for that, one in TensorFlow's queue, one sent.
    held = 4

    def server(self, host: str, port: int, say: Any) -> distributed.Server:
        return distributed.Server(host, port)

    def connection(self, host: str, port: int) -> distributed.Connection:
        return distributed.Connection(host, port, TIMEOUT_S)


class Secure:
    """gRPC over TLS, with credentials of its own."""

    held = 3  # the same, without TensorFlow's queue

    def __init__(self, folder: Path):
        credentials.make(folder)
        self.learner = credentials.read(str(folder / credentials.LEARNER), of_learner=True)
        self.actor = credentials.read(str(folder / credentials.ACTOR), of_learner=False)

    def server(self, host: str, port: int, say: Any) -> secure.Server:
        return secure.Server(
            host, port, self.learner, most_bytes=MOST_BYTES, timeout_s=TIMEOUT_S, say=say
        )

    def connection(self, host: str, port: int) -> secure.Connection:
        return secure.Connection(host, port, self.actor, TIMEOUT_S)


class Learner:
    """A receiver and the lines that it printed."""

    carrier: ClassVar[Any] = Plain()

    def __init__(
        self,
        capacity: int = 4,
        blocks: Layout = BLOCKS,
        most: int | None = None,
        address: str = "",
        among: dict[str, str] | None = None,
        **changes: str,
    ):
        """``among`` is what other learners must have in common with it besides."""
        self.blocks = blocks
        self.address = address or free_address()
        self.host, port = self.address.split(":")
        self.port = int(port)
        self.printed: list[str] = []
        self.properties = {"level": "A"} | changes
        self.receiver = Receiver(
            self.carrier.server(self.host, self.port, self.printed.append),
            make_identity(self.properties, blocks.digest()),
            blocks,
            WEIGHTS,
            capacity=capacity,
            timeout_s=TIMEOUT_S,
            say=self.printed.append,
            most_unrolls=most,
            of_learners=among and make_identity(self.properties | among, blocks.digest()),
        )

    def connection(self) -> Any:
        """An actor's connection, without a link."""
        return self.carrier.connection(self.host, self.port)

    def take(self, count: int) -> list[int]:
        """The first number of each of the next unrolls."""
        found: list[int] = []
        until = time.monotonic() + 20
        while len(found) < count:
            assert time.monotonic() < until, found
            block = self.receiver.take(0.2)
            if block is not None:
                found += block[0].tolist()
        return found


class Actor:
    """A link, the lines that it printed and the weights that it received."""

    def __init__(
        self,
        learner: Learner,
        name: str,
        of_learner: bool = False,
        in_step: bool = False,
        **changes: str,
    ):
        self.printed: list[str] = []
        self.weights: list[tuple[int, list[float]]] = []
        self.link = Link(
            learner.connection,
            learner.address,
            name,
            make_identity(learner.properties | changes, learner.blocks.digest()),
            learner.blocks,
            timeout_s=TIMEOUT_S,
            ask_every_s=0.05 if in_step else None,
            load=lambda arrays, version: self.weights.append((version, arrays[0].tolist())),
            say=self.printed.append,
            of_learner=of_learner,
        )

    def put(self, numbers: list[int], seconds: float = 20) -> bool:
        """Sends a block; False if the learner had no room in time."""
        until = time.monotonic() + seconds
        while not self.link.announce(0.1):
            if time.monotonic() > until:
                return False
        self.link.put(np.array([numbers, numbers]), len(numbers))
        return True


@contextlib.contextmanager
def running(*ends: Any) -> Iterator[None]:
    """Starts receivers and links, and ends them."""
    with contextlib.ExitStack() as stack:
        for end in ends:
            stack.enter_context(end.receiver if isinstance(end, Learner) else end.link)
        yield


def eventually(check: Any, seconds: float = 15) -> None:
    """Waits until ``check()`` is true."""
    until = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < until
        time.sleep(0.02)


ONCE = "Further ones are not reported."


def reported_once(learner: Learner, words: str) -> None:
    """Asserts that a learner printed these words, and warned only once."""
    eventually(lambda: any(words in line for line in learner.printed))
    assert len([line for line in learner.printed if ONCE in line]) == 1, learner.printed


@contextlib.contextmanager
def secure_server(ends: Secure, **more: Any) -> Iterator[tuple[secure.Server, secure.Connection]]:
    """A server without a receiver, and a connection to it."""
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    given: dict[str, Any] = {"most_bytes": MOST_BYTES, "timeout_s": TIMEOUT_S}
    given |= {"say": lambda _: None} | more
    made = secure.Server("localhost", port, ends.learner, **given)
    connection = ends.connection("localhost", port)
    yield made, connection
    connection.close()
    made.close()
