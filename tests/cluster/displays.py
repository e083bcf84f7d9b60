"""Programs on the port of an X display, which an mpirun without care waits for for ever."""

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator

from tests.namespaces import Namespace

# TensorBoard's port, and display :6.
PORT = 6006
SILENT = f"""
import socket, time
server = socket.create_server(("127.0.0.1", {PORT}))
print("listening", flush=True)
time.sleep(10**6)
"""


@contextlib.contextmanager
def occupied() -> Iterator[None]:
    """The port accepts connections on this machine, and nobody answers there."""
    try:
        server = socket.create_server(("127.0.0.1", PORT))
    except OSError:  # a program is there already
        yield
        return
    with server:
        yield


@contextlib.contextmanager
def occupied_on(host: Namespace) -> Iterator[None]:
    """The same on another host."""
    command = host.inside(sys.executable, "-c", SILENT)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout and program.stdout.readline() == "listening\n"
            yield
        finally:
            program.kill()
