"""How fast blocks of unrolls come from actors in other processes, beside bare loopback TCP.

    python -m benchmarks.transport [--transports=tensorflow,secure] [--unrolls=1,8,32]
                                   [--actors=1,2,3] [--seconds=3]

Unrolls are 21×84×84 bytes. Actors send what they have ready, over and over; the learner takes
it and looks at nothing. Both share the machine, as does the bare copy: a socket in another
process that sends as many bytes at a time. Wanted: 600 MB/s with 8 unrolls and one actor of
distributed TensorFlow.
"""

import argparse
import contextlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from impala.quiet import import_tensorflow

import_tensorflow()

import credentials  # noqa: E402 (TensorFlow comes first)
from benchmarks.environment_overhead import processor  # noqa: E402
from impala.config import TRANSPORTS  # noqa: E402
from transport import (  # noqa: E402
    ArraySpec,
    Closed,
    Layout,
    Link,
    Receiver,
    distributed,
    make_identity,
    secure,
)
from transport.link import Connection  # noqa: E402
from transport.receiver import Server  # noqa: E402

FRAMES = (21, 84, 84)
BLOCKS = Layout(ArraySpec(np.dtype(np.uint8), (FRAMES[0], None, *FRAMES[1:])))
WEIGHTS = Layout([ArraySpec(np.dtype(np.uint8), (1,))])
IDENTITY = make_identity({}, BLOCKS.digest())
TIMEOUT_S = 10.0
WARM_UP_S = 1.0


def say_nothing(text: str) -> None:
    """Instead of telling who comes and goes."""


def server(transport: str, port: int, folder: Path, unrolls: int) -> Server:
    """A learner's end."""
    if transport == "tensorflow":
        return distributed.Server("localhost", port)
    credentials.make(folder)
    mine = credentials.read(str(folder / credentials.LEARNER), of_learner=True)
    most = BLOCKS.size(unrolls)
    return secure.Server(
        "localhost", port, mine, most_bytes=most, timeout_s=TIMEOUT_S, say=say_nothing
    )


def connection(transport: str, port: int, folder: Path) -> Connection:
    """An actor's end."""
    if transport == "tensorflow":
        return distributed.Connection("localhost", port, TIMEOUT_S)
    mine = credentials.read(str(folder / credentials.ACTOR), of_learner=False)
    return secure.Connection("localhost", port, mine, TIMEOUT_S)


def play(transport: str, port: int, folder: Path, unrolls: int) -> None:
    """An actor: sends until the learner has finished."""
    block = np.zeros([FRAMES[0], unrolls, *FRAMES[1:]], np.uint8)
    link = Link(
        lambda: connection(transport, port, folder),
        f"localhost:{port}",
        "actor",
        IDENTITY,
        BLOCKS,
        timeout_s=TIMEOUT_S,
        load=lambda *_: None,
        say=say_nothing,
    )
    with link, contextlib.suppress(Closed):
        while True:
            if link.announce(1.0):
                link.put(block, unrolls)


def send(port: int, size: int) -> None:
    """The bare copy's sender."""
    with socket.create_connection(("localhost", port)) as out, contextlib.suppress(OSError):
        piece = bytes(size)
        while True:
            out.sendall(piece)


def free_port() -> int:
    """A port at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def others(count: int, *arguments: object) -> Iterator[None]:
    """Processes of this module, ended with the ``with`` block."""
    command = [sys.executable, "-m", "benchmarks.transport", *map(str, arguments)]
    started = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.send_signal(signal.SIGKILL)
            process.wait()


def unrolls_a_second(transport: str, unrolls: int, actors: int, seconds: float) -> float:
    """What a learner takes from its actors."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        port = free_port()
        receiver = Receiver(
            server(transport, port, folder, unrolls),
            IDENTITY,
            BLOCKS,
            WEIGHTS,
            capacity=unrolls,
            timeout_s=TIMEOUT_S,
            say=say_nothing,
        )
        stack.enter_context(receiver)
        own = ["--folder", folder, "--transports", transport, "--unrolls", unrolls]
        stack.enter_context(others(actors, "--play", port, *own))
        receiver.publish([np.zeros(1, np.uint8)], 0)
        return counted(lambda: receiver.take(60.0) is not None, actors, seconds) * unrolls


def bare_bytes_a_second(size: int, seconds: float) -> float:
    """What a socket takes from another process."""
    with (
        socket.create_server(("localhost", 0)) as listening,
        others(1, "--send", listening.getsockname()[1], "--size", size),
        listening.accept()[0] as taken,
    ):
        room = memoryview(bytearray(size))

        def take() -> bool:
            missing = size
            while missing:
                missing -= taken.recv_into(room[size - missing :])
            return True

        return counted(take, 1, seconds) * size


def counted(take: Callable[[], bool], processes: int, seconds: float) -> float:
    """How often a second ``take`` succeeds, once all processes had time to start."""
    for _ in range(5 * processes):
        take()
    until = time.perf_counter() + WARM_UP_S * processes
    while time.perf_counter() < until:
        take()
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        count += take()
    return count / (time.perf_counter() - start)


def numbers(text: str) -> list[int]:
    """Numbers with commas between."""
    return [int(part) for part in text.split(",")]


def names(text: str) -> list[str]:
    """Transports with commas between."""
    given = text.split(",")
    if not set(given) <= set(TRANSPORTS):
        raise argparse.ArgumentTypeError(f"{text}: known are {', '.join(TRANSPORTS)}")
    return given


def main() -> None:
    """Prints the table."""
    flags = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    flags.add_argument("--transports", type=names, default=list(TRANSPORTS))
    flags.add_argument("--unrolls", type=numbers, default=[1, 8, 32], help="in a message")
    flags.add_argument("--actors", type=numbers, default=[1, 2, 3])
    flags.add_argument("--seconds", type=float, default=3.0, help="to measure each")
    for name in ("--play", "--send", "--size"):
        flags.add_argument(name, type=int, help=argparse.SUPPRESS)
    flags.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = flags.parse_args()
    if given.play:
        return play(given.transports[0], given.play, given.folder, given.unrolls[0])
    if given.send:
        return send(given.send, given.size)

    print(processor())
    print(
        f"{'unrolls a message':>18}{'transport':>12}{'actors':>8}{'unrolls/s':>11}{'MB/s':>8}"
        f"{'bare TCP MB/s':>15}"
    )
    for unrolls in given.unrolls:
        bare = bare_bytes_a_second(BLOCKS.size(unrolls), given.seconds) / 1e6
        for transport in given.transports:
            for actors in given.actors:
                rate = unrolls_a_second(transport, unrolls, actors, given.seconds)
                speed = rate * int(np.prod(FRAMES)) / 1e6
                print(
                    f"{unrolls:>18}{transport:>12}{actors:>8}{rate:>11,.0f}{speed:>8,.0f}"
                    f"{bare:>15,.0f}",
                    flush=True,
                )
    return None


if __name__ == "__main__":
    main()
