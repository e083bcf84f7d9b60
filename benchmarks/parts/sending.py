"""What the benchmark of transport starts in processes of their own: it sends until it is ended.

python -m benchmarks.parts.sending '{"transport": "tensorflow", "host": …}'    see ``Job``

It prints a line once it has begun. At its end it prints, as JSON, where the time of its own thread
went (compute, pack, wait), for how long its second thread sent meanwhile, and how many bytes that
were.
"""

import contextlib
import dataclasses
import itertools
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import credentials

TIMEOUT_S = 10.0
CONTENTS = ("noise", "pictures", "play")
ENVS, DIFFERENT, SKIPPED = 8, 4, 100  # environments; blocks; steps before the first
FIRST = 5  # blocks that do not count
BEGUN = "begun"  # printed then


@dataclasses.dataclass(frozen=True)
class Job:
    """What a process sends, and where to."""

    transport: str  # or "bare": bytes to a socket
    host: str
    port: int
    size: int  # bytes of a message
    content: str = "noise"
    compression: str = "none"
    level_name: str = ""
    seed: int = 1
    credentials: str = ""


def send_blocks(job: Job) -> None:
    """Blocks of one unroll of so many bytes, as an actor sends them."""
    from trainer.machine.quiet import import_tensorflow

    import_tensorflow()
    from benchmarks.parts.transport import layout
    from transport import Closed, Link, make_identity

    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    blocks, spent = layout(job.size, job.compression), _Spent()
    link = Link(
        lambda: spent.watched(_connection(job)),
        f"{job.host}:{job.port}",
        "actor",
        make_identity({}, blocks.digest()),
        blocks,
        timeout_s=TIMEOUT_S,
        load=lambda *_: None,
        say=lambda _: None,
    )
    source, told = contents(job), dict[str, float]()
    with link, contextlib.suppress(Closed):
        for sent in itertools.count():
            if sent == FIRST:
                print(BEGUN, flush=True)
                spent.begin()
            block = spent.during("compute", lambda: next(source))
            while not stopped and not spent.during("wait", lambda: link.announce(1.0)):
                pass
            if stopped:
                told = spent.shares()  # before it leaves, which takes time
                break
            spent.during("pack", lambda block=block: link.put(block, 1))
    print(json.dumps(told or spent.shares()), flush=True)
    os._exit(0)  # a thread inside TensorFlow would crash the interpreter at exit


def _connection(job: Job) -> Any:
    from transport import distributed, secure

    if job.transport == "tensorflow":
        return distributed.Connection(job.host, job.port, TIMEOUT_S)
    mine = credentials.read(job.credentials, of_learner=False)
    return secure.Connection(job.host, job.port, mine, TIMEOUT_S)


class _Spent:
    """Seconds by what they were spent on."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Forgets all before."""
        self._seconds = dict.fromkeys(("compute", "pack", "send", "wait"), 0.0)
        self._bytes = self._messages = 0
        self._started = time.perf_counter()

    def during(self, name: str, call: Callable[..., Any]) -> Any:
        """Does it, and counts its seconds."""
        start = time.perf_counter()
        try:
            return call()
        finally:
            self._seconds[name] += time.perf_counter() - start

    def watched(self, connection: Any) -> Any:
        """The connection, its messages counted."""
        put = connection.put

        def counted(header: np.ndarray, block: np.ndarray) -> int:
            version = self.during("send", lambda: put(header, block))
            self._bytes += block.nbytes
            self._messages += 1
            return int(version)

        connection.put = counted
        return connection

    def shares(self) -> dict[str, float]:
        """Of the time since ``begin``, and the bytes of a message."""
        passed = time.perf_counter() - self._started
        of_time = {name: seconds / passed for name, seconds in self._seconds.items()}
        return of_time | {"bytes": self._bytes / max(1, self._messages)}


def contents(job: Job) -> Iterator[np.ndarray]:
    """Blocks uint8 [1, size] without end: noise or recorded pictures in turn, or fresh pictures."""
    if job.content == "noise":
        random = np.random.default_rng(job.seed)
        made = [random.integers(0, 256, (1, job.size), np.uint8) for _ in range(DIFFERENT)]
        return itertools.cycle(made)
    played = play(job)
    if job.content == "pictures":
        return itertools.cycle(list(itertools.islice(played, DIFFERENT)))
    return played


def play(job: Job) -> Iterator[np.ndarray]:
    """Pictures of a game at random: of all environments of an actor, then of its next step."""
    import environments

    made = environments.make(job.level_name, ENVS, job.seed, num_threads=1)
    made.reset()
    made.spec.action_space.seed(job.seed)

    def shown() -> np.ndarray:
        actions = np.array([made.spec.action_space.sample() for _ in range(ENVS)])
        return made.step(actions).observation

    for _ in range(SKIPPED):  # until the games differ
        shown()
    while True:
        block = np.empty((1, job.size), np.uint8)
        filled = 0
        while filled < job.size:
            pixels = shown().reshape(-1)[: job.size - filled]
            block[0, filled : filled + pixels.size] = pixels
            filled += pixels.size
        yield block


def send_bare(job: Job) -> None:
    """So many bytes at a time."""
    with socket.create_connection((job.host, job.port)) as out, contextlib.suppress(OSError):
        piece = bytes(job.size)
        print(BEGUN, flush=True)
        while True:
            out.sendall(piece)


if __name__ == "__main__":
    given = Job(**json.loads(sys.argv[1]))
    (send_bare if given.transport == "bare" else send_blocks)(given)
