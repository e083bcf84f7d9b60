"""How fast actors in other processes get blocks to a learner, beside bare TCP.

  python -m benchmarks transport
  python -m benchmarks transport --sizes=1185408 --contents=noise,pictures --megabits=0,1000 \\
    --compressions=none,zstd
  python -m benchmarks transport --sizes=1185408 --contents=play --transports=secure --actors=1

Actors send what they have ready, over and over; the rate is that at which the learner takes it.
Both share the machine, as does bare TCP: a socket in another process that sends as many bytes at
a time.

Contents are noise, pictures of a game played at random, or play: then the game is played meanwhile.
With --megabits, the actors are a host of their own, a network namespace whose only link is so fast;
that takes root. LZ4 is for this benchmark only.

compute, pack and wait are shares of the time of an actor's own thread; compressing is part of
pack. send is that of its second thread, which sends while the first computes or waits. sent is
the share of the bytes that were sent. Goal: 600 MB/s from one actor with 8 unrolls of
21×84×84 bytes, 1,185,408, over distributed TensorFlow on loopback.
"""

import contextlib
import dataclasses
import itertools
import json
import select
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from trainer.machine.quiet import import_tensorflow

import_tensorflow()

import credentials  # noqa: E402 (TensorFlow comes first)
from benchmarks.parts.sending import BEGUN, CONTENTS, TIMEOUT_S, Job  # noqa: E402
from benchmarks.tools import common, namespaces  # noqa: E402
from benchmarks.tools.common import Options, Spread, numbers, spread, words  # noqa: E402
from benchmarks.tools.lz4_codec import Lz4  # noqa: E402
from benchmarks.tools.ports import free_port  # noqa: E402
from benchmarks.tools.report import Column, Report  # noqa: E402
from environments.names import find  # noqa: E402
from flags import setting  # noqa: E402
from trainer.machine.launching import PROJECT  # noqa: E402
from trainer.remote.settings import TRANSPORTS  # noqa: E402
from transport import (  # noqa: E402
    ArraySpec,
    Layout,
    Receiver,
    distributed,
    make_identity,
    secure,
)
from transport.compression import Compressed, Zstd  # noqa: E402
from transport.receiver import Server  # noqa: E402
from user_error import UserError  # noqa: E402

CODECS = {"none": None, "zstd": Zstd, "lz4": Lz4}
WEIGHTS = Layout([ArraySpec(np.dtype(np.uint8), (1,))])
WARM_UP_S = 1.0
LOOKS_EVERY_S, BLOCK_WITHIN_S = 1.0, 60.0
CONNECTS_WITHIN_S = 60.0
WANTED_MB = 600
SHARES = ("compute", "pack", "send", "wait")
COLUMNS = (
    Column("bytes", 9),
    Column("link", 10),
    Column("content", 8),
    Column("compression", 11),
    Column("transport", 10),
    Column("actors", 6),
    Column("messages/s", 24, ",.0f"),
    Column("MB/s", 20, ",.0f"),
    Column("bare TCP MB/s", 20, ",.0f"),
    Column("sent", 6, ".1%"),
    *[Column(name, 7, ".0%") for name in SHARES],
)


@dataclasses.dataclass(frozen=True)
class Own(Options):
    sizes: str = setting(
        "1000,8000,64000,1185408,8000000", "Measuring", "bytes of a message, with commas between"
    )
    transports: str = setting(
        ",".join(TRANSPORTS), "Measuring", "ways of the blocks, with commas between"
    )
    actors: str = setting("1,2,3", "Measuring", "actors at the same time, with commas between")
    contents: str = setting("noise", "Measuring", f"of {', '.join(CONTENTS)}; commas between")
    compressions: str = setting("none", "Measuring", f"of {', '.join(CODECS)}; commas between")
    megabits: str = setting(
        "0", "Measuring", "Mbit/s of the actors' link, with commas between; 0: loopback"
    )
    level_name: str = setting("BreakoutNoFrameskip-v4", "Measuring", "the game of the pictures")
    seconds: float = setting(1.0, "Measuring", "for each measurement", above=0)


class Where(NamedTuple):
    """Where the learner listens, and the host of its actors."""

    host: str
    actors: namespaces.Namespace | None = None


def layout(size: int, compression: str = "none") -> Layout:
    """Blocks of one unroll of so many bytes."""
    nest, codec = ArraySpec(np.dtype(np.uint8), (None, size)), CODECS[compression]
    return Compressed(nest, codec(), most=1) if codec else Layout(nest)


def measure(arguments: list[str]) -> None:
    """Prints the table."""
    own, _ = common.parse(Own, "transport", __doc__, arguments)
    sizes, actors = numbers("sizes", own.sizes), numbers("actors", own.actors)
    links = numbers("megabits", own.megabits, least=0)
    transports = words("transports", own.transports, TRANSPORTS)
    kinds = words("contents", own.contents, CONTENTS)
    compressions = words("compressions", own.compressions, CODECS)
    for name in compressions:
        layout(1, name)  # refuses what is not installed before anything is measured
    find(own.level_name)
    why = namespaces.missing("tc") if any(links) else ""
    if why:
        raise UserError(f"--megabits={own.megabits} {why}; --megabits=0 does not.")
    what = f"blocks from actors in other processes; pictures are of {own.level_name}"
    report = Report("transport", COLUMNS, own, "uint8", what)
    with report.finished("MB/s", WANTED_MB):
        for megabits, size in itertools.product(links, sizes):
            with place(megabits) as where:
                bare = in_megabytes(bare_bytes_a_second(own, where, size), 1)
                link = f"{megabits} Mbit/s" if megabits else "loopback"
                cases = itertools.product(kinds, compressions, transports, actors)
                for content, compression, transport, many in cases:
                    job = Job(
                        transport,
                        where.host,
                        free_port(),
                        size,
                        content,
                        compression,
                        own.level_name,
                        own.seed,
                    )
                    found, shares = messages_a_second(own, where, job, many)
                    report.row(
                        *(str(size), link, content, compression, transport, str(many)),
                        *(found, in_megabytes(found, size), bare, shares["bytes"] / size),
                        *(shares[name] for name in SHARES),
                    )


@contextlib.contextmanager
def place(megabits: int) -> Iterator[Where]:
    """Loopback, or a host whose link to this machine is so fast."""
    if not megabits:
        yield Where("localhost")
        return
    with namespaces.Bridge() as bridge:
        host = bridge.add()
        host.limit(megabits)
        yield Where(bridge.address, host)


class Senders:
    """Processes that send."""

    def __init__(self, processes: Sequence[subprocess.Popen[bytes]]) -> None:
        self._processes = processes
        self.printed: list[dict[str, float]] = []  # of each, at its end

    def have_begun(self) -> bool:
        """Whether each has printed that it began (or has ended)."""
        pipes = [one.stdout for one in self._processes if one.stdout]
        return len(select.select(pipes, [], [], 0)[0]) == len(pipes)

    def ended(self) -> int:
        """How many have ended by themselves."""
        return sum(process.poll() is not None for process in self._processes)

    def end(self) -> None:
        """Asks them to, and reads what they print then."""
        for process in self._processes:
            process.terminate()
        said = [process.communicate()[0].decode().splitlines() for process in self._processes]
        self.printed = [json.loads(lines[-1]) for lines in said if lines and lines[-1] != BEGUN]


@contextlib.contextmanager
def senders(count: int, where: Where, job: Job) -> Iterator[Senders]:
    """So many processes that send, ended with the ``with`` block."""
    # They end with the benchmark, however that ends.
    command = ["setpriv", "--pdeathsig", "TERM", sys.executable, "-m", "benchmarks.parts.sending"]
    command.append(json.dumps(dataclasses.asdict(job)))
    if where.actors:
        command = where.actors.inside(*command)
    started = [subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE) for _ in range(count)]
    sending = Senders(started)
    try:
        yield sending
        sending.end()
    finally:
        for process in started:
            process.kill()
            process.wait()
            assert process.stdout
            process.stdout.close()


def server(job: Job, folder: Path) -> Server:
    """A learner's end, whose credentials lie in ``folder`` where it has any."""
    if job.transport == "tensorflow":
        return distributed.Server(job.host, job.port)
    mine = credentials.read(str(folder / credentials.LEARNER), of_learner=True)
    return secure.Server(
        job.host, job.port, mine, most_bytes=job.size + 64, timeout_s=TIMEOUT_S, say=lambda _: None
    )


def messages_a_second(
    own: Own, where: Where, job: Job, actors: int
) -> tuple[Spread, dict[str, float]]:
    """What a learner takes from its actors, and the mean of what these print."""
    blocks = layout(job.size, job.compression)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        credentials.make(folder)
        receiver = Receiver(
            server(job, folder),
            make_identity({}, blocks.digest()),
            blocks,
            WEIGHTS,
            capacity=1,
            timeout_s=TIMEOUT_S,
            say=lambda _: None,
        )
        stack.enter_context(receiver)
        job = dataclasses.replace(job, credentials=str(folder / credentials.ACTOR))
        with senders(actors, where, job) as sending:
            receiver.publish([np.zeros(1, np.uint8)], 0)
            found = measured(own, lambda: _taken(receiver, sending, actors), sending)
        if missing := actors - len(sending.printed):  # so the rate is not that of all
            raise _lost(missing, actors)
        shares = {
            name: statistics.mean(one[name] for one in sending.printed)
            for name in sending.printed[0]
        }
        return found, shares


def _taken(receiver: Receiver, sending: Senders, actors: int) -> bool:
    """Whether a block has come in time; not waited for where nobody is left to send it."""
    until = time.monotonic() + BLOCK_WITHIN_S
    while receiver.take(LOOKS_EVERY_S) is None:
        if sending.ended() == actors:
            raise _lost(actors, actors)
        if time.monotonic() > until:
            return False
    return True


def _lost(missing: int, actors: int) -> UserError:
    return UserError(
        f"{missing} of {actors} actors of the benchmark did not come to their end; what they said "
        "is above."
    )


def bare_bytes_a_second(own: Own, where: Where, size: int) -> Spread:
    """What a socket takes from another process."""
    with socket.create_server((where.host, 0)) as listening:
        listening.settimeout(CONNECTS_WITHIN_S)
        job = Job("bare", where.host, listening.getsockname()[1], size)
        with senders(1, where, job) as sending, _accepted(listening) as taken:
            room = memoryview(bytearray(size))

            def take() -> int:
                missing = size
                while missing:
                    if not (got := taken.recv_into(room[size - missing :])):
                        raise UserError(
                            "the process that sends over bare TCP has ended; what it said is above."
                        )
                    missing -= got
                return size

            return measured(own, take, sending)


def _accepted(listening: socket.socket) -> socket.socket:
    try:
        return listening.accept()[0]
    except TimeoutError:
        raise UserError(
            f"the process that sends over bare TCP has not connected within {CONNECTS_WITHIN_S:g} "
            "s; what it said is above."
        ) from None


def measured(own: Own, take: Callable[[], int], sending: Senders) -> Spread:
    """What ``take`` gets a second, once all processes have begun."""
    while not sending.have_begun():
        take()
    common.rate([take], WARM_UP_S)
    return spread([common.rate([take], own.seconds) for _ in range(own.repeats)])


def in_megabytes(found: Spread, size: int) -> Spread:
    """Pieces of so many bytes as MB."""
    return spread([value * size / 1e6 for value in found.values])


if __name__ == "__main__":
    sys.exit(common.run("transport", measure))
