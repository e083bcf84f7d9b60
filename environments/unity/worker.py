"""The program between this project and one build, inside a network with loopback only.

It starts the build, waits until it connects in one of two protocols, and answers rows of actions
with rows of columns. It ends with the process that has started it, and the build with it.
"""

import fcntl
import os
import queue
import select
import socket
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from environments import held_folders
from environments.unity.api2 import Api2
from environments.unity.behaviour import Talk, Unusable, joined
from environments.unity.columns import Columns, Rows
from environments.unity.grpc_api import GrpcApi, Server
from environments.unity.process import OUTPUT, RESET, Failed, Launch, Level

LOOKS_EVERY_S = 0.1
LEAVES_WITHIN_S = 2.0
SIOCSIFFLAGS, IFF_UP = 0x8914, 0x1
# What comes of messages that lack something, or have something else in its place.
MALFORMED = (ValueError, LookupError, TypeError, AttributeError)


def main() -> None:
    """Serves the process at the other end of a descriptor; its build runs in a folder.

    The command line names both.
    """
    descriptor, folder = int(sys.argv[1]), Path(sys.argv[2])
    end = threading.Thread(target=_end_with_reader, args=(descriptor, folder), daemon=True)
    end.start()
    with Connection(descriptor) as parent:
        try:
            _answer(parent)
        finally:
            if _has_left(descriptor, 0):
                end.join()  # which may still be removing the folder


def _answer(parent: Connection) -> None:
    launch: Launch = parent.recv()
    try:
        _start_loopback()
        _serve(parent, launch)
    except Unusable as error:
        parent.send(Failed(str(error), usable=False))
    except OSError as error:
        parent.send(Failed(f"has ended: {_reason(error)}", usable=True))
    except MALFORMED as error:
        told = (
            f"has sent what is no message of ML-Agents ({type(error).__name__}: {_reason(error)})"
        )
        parent.send(Failed(told, usable=True))


def _serve(parent: Connection, launch: Launch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        arrived: queue.SimpleQueue[socket.socket | None] = queue.SimpleQueue()
        threading.Thread(target=_accept, args=(listener, arrived), daemon=True).start()
        server = Server(lambda: arrived.put(None))
        server.build = build = _started(launch, listener.getsockname()[1], server.port)
        talk: Talk | None = None
        try:
            connection = _first(arrived, build, launch)
            talk = (
                GrpcApi(server, launch.seed)
                if connection is None
                else Api2(connection, launch.actions)
            )
            _play(parent, talk, launch)
        finally:
            if talk:
                with suppress(OSError):
                    talk.close()
            with suppress(subprocess.TimeoutExpired):
                build.wait(LEAVES_WITHIN_S if talk else 0)
            build.kill()
            build.wait()


def _play(parent: Connection, talk: Talk, launch: Launch) -> None:
    behaviour, shown = talk.begin(launch.behaviour, launch.parameters)
    if not (launch.columns or shown.asked):
        raise Unusable("shows no agents after its first reset")
    columns = Columns(launch.columns or len(shown.asked), behaviour.numbers)
    parent.send(Level(behaviour, columns.count))
    rows: Rows | None = columns.restart(shown)
    over = shown.over
    while (command := _received(parent)) is not None:
        if isinstance(command, str):
            assert command == RESET
            rows = rows or columns.restart(talk.reset())
            over = False
        elif over:
            shown = talk.reset()
            rows, over = columns.restart(shown), shown.over
        elif columns.is_idle:
            rows = columns.begin()
        else:
            shown = talk.step(columns.actions(command))
            while columns.expects_more(shown):
                shown = joined(shown, talk.step({}))
            rows, over = columns.add(shown), shown.over
        parent.send(rows)
        rows = None


def _received(parent: Connection) -> Any:
    """The next command; None once there will be no more."""
    try:
        return parent.recv()
    except EOFError:
        return None


def _started(launch: Launch, port: int, grpc_port: int) -> subprocess.Popen:
    # What it does not know, a build passes over.
    options = ("-batchmode", "-nographics", "-logFile", "unity.log")
    ports = ("--port", str(port), "--mlagents-port", str(grpc_port))
    with open(Path(launch.folder) / OUTPUT, "wb") as output:
        return subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", launch.program, *options, *ports],
            cwd=launch.folder,
            env={**os.environ, "HOME": launch.folder},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )


def _first(
    arrived: "queue.SimpleQueue[socket.socket | None]", build: subprocess.Popen, launch: Launch
) -> socket.socket | None:
    """The connection of an old build, or None where a build has called the server."""
    while True:
        with suppress(queue.Empty):
            return arrived.get(timeout=LOOKS_EVERY_S)
        if (code := build.poll()) is not None:
            # Whether another start might help, the other end knows: at first it is a mistake.
            raise ConnectionError(
                f"it ended with exit code {code} before it connected{_said(launch)}"
            )


def _said(launch: Launch) -> str:
    """The last line that a build has printed."""
    lines = (Path(launch.folder) / OUTPUT).read_text(errors="replace").strip().splitlines()
    return f": {''.join(filter(str.isprintable, lines[-1])).strip()}" if lines else ""


def _accept(listener: socket.socket, arrived: "queue.SimpleQueue[socket.socket | None]") -> None:
    with suppress(OSError):
        arrived.put(listener.accept()[0])


def _start_loopback() -> None:
    """Switches on the one network interface that there is."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH14x", b"lo", IFF_UP)
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, request)


def _end_with_reader(descriptor: int, folder: Path) -> None:
    """Ends this process as soon as nobody can read its answers, also while a build is silent.

    Nobody else would remove the folder then.
    """
    _has_left(descriptor, None)
    held_folders.remove(folder)
    os._exit(1)


def _has_left(descriptor: int, within_ms: int | None) -> bool:
    """Whether the other end has been closed within so long, or at all."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return bool(poll.poll(within_ms))


def _reason(error: Exception) -> str:
    return " ".join(str(getattr(error, "strerror", None) or error).split()).rstrip(".")


if __name__ == "__main__":
    main()
