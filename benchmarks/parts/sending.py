"""What the benchmark of transport starts in processes of their own: it sends until it is killed.

python -m benchmarks sending TRANSPORT PORT UNROLLS BYTES [CREDENTIALS]    an actor's blocks
python -m benchmarks sending bare PORT BYTES                               bytes, to a socket
"""

import contextlib
import socket
import sys

import numpy as np

import credentials

TIMEOUT_S = 10.0


def send_blocks(transport: str, port: int, unrolls: int, size: int, file: str) -> None:
    """Blocks of so many unrolls of so many bytes, as an actor sends them."""
    from trainer.machine.quiet import import_tensorflow

    import_tensorflow()
    from benchmarks.parts.transport import layout
    from transport import Closed, Link, distributed, make_identity, secure
    from transport.link import Connection

    def connect() -> Connection:
        if transport == "tensorflow":
            return distributed.Connection("localhost", port, TIMEOUT_S)
        mine = credentials.read(file, of_learner=False)
        return secure.Connection("localhost", port, mine, TIMEOUT_S)

    block, blocks = np.zeros([unrolls, size], np.uint8), layout(size)
    link = Link(
        connect,
        f"localhost:{port}",
        "actor",
        make_identity({}, blocks.digest()),
        blocks,
        timeout_s=TIMEOUT_S,
        load=lambda *_: None,
        say=lambda _: None,
    )
    with link, contextlib.suppress(Closed):
        while True:
            if link.announce(1.0):
                link.put(block, unrolls)


def send_bare(port: int, size: int) -> None:
    """So many bytes at a time."""
    with socket.create_connection(("localhost", port)) as out, contextlib.suppress(OSError):
        piece = bytes(size)
        while True:
            out.sendall(piece)


if __name__ == "__main__":
    kind, port, *sizes = sys.argv[1:]
    if kind == "bare":
        send_bare(int(port), int(sizes[0]))
    else:
        send_blocks(kind, int(port), int(sizes[0]), int(sizes[1]), *sizes[2:])
