"""How fast blocks of unrolls come from actors in other processes, beside bare loopback TCP.

  python -m benchmarks transport
  python -m benchmarks transport --transports=secure --unrolls=8 --actors=1 --seconds=5

Actors send what they have ready, over and over; the learner takes it without looking at it. Both
share the machine, as does the bare copy: a socket in another process that sends as many bytes
at a time. Goal: 600 MB/s with 8 unrolls of 21×84×84 bytes and one actor over
distributed TensorFlow.
"""

import contextlib
import dataclasses
import itertools
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from trainer.machine.quiet import import_tensorflow

import_tensorflow()

import credentials  # noqa: E402 (TensorFlow comes first)
from benchmarks.parts.sending import TIMEOUT_S  # noqa: E402
from benchmarks.tools import common  # noqa: E402
from benchmarks.tools.common import Options, Spread, numbers, spread  # noqa: E402
from benchmarks.tools.ports import free_port  # noqa: E402
from benchmarks.tools.report import Column, Report  # noqa: E402
from flags import setting  # noqa: E402
from trainer.remote.settings import TRANSPORTS  # noqa: E402
from transport import (  # noqa: E402
    ArraySpec,
    Layout,
    Receiver,
    distributed,
    make_identity,
    secure,
)
from transport.receiver import Server  # noqa: E402
from user_error import UserError  # noqa: E402

WEIGHTS = Layout([ArraySpec(np.dtype(np.uint8), (1,))])
WARM_UP_S = 1.0
WANTED_MB = 600
COLUMNS = (
    Column("unrolls a message", 18),
    Column("transport", 11),
    Column("actors", 8),
    Column("unrolls/s", 24, ",.0f"),
    Column("MB/s", 20, ",.0f"),
    Column("bare TCP MB/s", 24, ",.0f"),
)


@dataclasses.dataclass(frozen=True)
class Own(Options):
    unrolls: str = setting("1,8,32", "Measuring", "unrolls in a message, with commas between")
    transports: str = setting(
        ",".join(TRANSPORTS), "Measuring", "ways of the blocks, with commas between"
    )
    actors: str = setting("1,2,3", "Measuring", "actors at the same time, with commas between")
    unroll_bytes: int = setting(21 * 84 * 84, "Measuring", "bytes of an unroll", least=1)
    seconds: float = setting(1.0, "Measuring", "for each measurement", above=0)


def layout(size: int) -> Layout:
    """Blocks of unrolls of so many bytes."""
    return Layout(ArraySpec(np.dtype(np.uint8), (None, size)))


@contextlib.contextmanager
def senders(count: int, *arguments: object) -> Iterator[None]:
    """Processes that send, ended with the ``with`` block."""
    command = [sys.executable, "-m", "benchmarks", "sending", *map(str, arguments)]
    started = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def server(transport: str, port: int, most_bytes: int, folder: Path) -> Server:
    """A learner's end, whose credentials lie in ``folder`` where it has any."""
    if transport == "tensorflow":
        return distributed.Server("localhost", port)
    credentials.make(folder)
    mine = credentials.read(str(folder / credentials.LEARNER), of_learner=True)
    return secure.Server(
        "localhost", port, mine, most_bytes=most_bytes, timeout_s=TIMEOUT_S, say=lambda _: None
    )


def unrolls_a_second(own: Own, transport: str, unrolls: int, actors: int) -> Spread:
    """What a learner takes from its actors."""
    port, blocks = free_port(), layout(own.unroll_bytes)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        receiver = Receiver(
            server(transport, port, blocks.size(unrolls), folder),
            make_identity({}, blocks.digest()),
            blocks,
            WEIGHTS,
            capacity=unrolls,
            timeout_s=TIMEOUT_S,
            say=lambda _: None,
        )
        stack.enter_context(receiver)
        mine = [port, unrolls, own.unroll_bytes, folder / credentials.ACTOR]
        stack.enter_context(senders(actors, transport, *mine))
        receiver.publish([np.zeros(1, np.uint8)], 0)

        def take() -> int:
            return unrolls * (receiver.take(60.0) is not None)

        return measured(own, take, actors)


def bare_bytes_a_second(own: Own, size: int) -> Spread:
    """What a socket takes from another process."""
    with (
        socket.create_server(("localhost", 0)) as listening,
        senders(1, "bare", listening.getsockname()[1], size),
        listening.accept()[0] as taken,
    ):
        room = memoryview(bytearray(size))

        def take() -> int:
            missing = size
            while missing:
                missing -= taken.recv_into(room[size - missing :])
            return size

        return measured(own, take, 1)


def measured(own: Own, take: Callable[[], int], processes: int) -> Spread:
    """What ``take`` gets a second, once all processes had time to start."""
    for _ in range(5 * processes):
        take()
    common.rate([take], WARM_UP_S * processes)
    return spread([common.rate([take], own.seconds) for _ in range(own.repeats)])


def measure(arguments: list[str]) -> None:
    """Prints the table."""
    own, _ = common.parse(Own, "transport", __doc__, arguments)
    unrolls, actors = numbers("unrolls", own.unrolls), numbers("actors", own.actors)
    transports = own.transports.split(",")
    if not set(transports) <= set(TRANSPORTS):
        raise UserError(f"--transports={own.transports}: known are {', '.join(TRANSPORTS)}.")
    what = f"unrolls of {own.unroll_bytes:,} bytes from actors in other processes"
    report = Report("transport", COLUMNS, own, "uint8", what)
    for count in unrolls:
        bare = in_megabytes(bare_bytes_a_second(own, count * own.unroll_bytes), 1)
        for transport, many in itertools.product(transports, actors):
            found = unrolls_a_second(own, transport, count, many)
            speed = in_megabytes(found, own.unroll_bytes)
            report.row(str(count), transport, str(many), found, speed, bare)
    report.finish("MB/s", WANTED_MB)


def in_megabytes(found: Spread, size: int) -> Spread:
    """Pieces of so many bytes as MB."""
    return spread([value * size / 1e6 for value in found.values])


if __name__ == "__main__":
    sys.exit(common.run("transport", measure))
