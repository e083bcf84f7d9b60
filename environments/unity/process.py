"""One build with the program beside it, as this process sees them."""

import contextlib
import functools
import os
import pickle
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from environments import held_folders
from environments.unity.behaviour import Behaviour
from environments.unity.columns import Rows
from user_error import EndedOutside, UserError

PREFIX = "impala-unity-"
RESET = "reset"
OUTPUT = "output.txt"  # of the build, in the folder that it runs in
# Long, since a busy machine is no reason to give up a build.
STARTS_WITHIN_S, ANSWERS_WITHIN_S, LEAVES_WITHIN_S = 180.0, 60.0, 5.0
# A network of its own; without root, as a user who is root in there only.
NETWORKS = (("unshare", "--net"), ("unshare", "--user", "--map-root-user", "--net"))


class Launch(NamedTuple):
    """How a build is started."""

    program: str
    seed: int
    behaviour: str  # whose agents are played; "": of all
    parameters: Mapping[str, float]
    actions: int = 0  # that an old build takes, where it counts them wrongly
    columns: int = 0  # for agents; 0: as many as there are at first
    folder: str = ""  # to run in


class Level(NamedTuple):
    """What a build turns out to be."""

    behaviour: Behaviour
    columns: int


class Failed(NamedTuple):
    """Why there is no build any more, as the end of a sentence."""

    reason: str
    usable: bool  # whether another start might help


class Lost(EndedOutside):
    """A build has ended or does not answer; the message is the end of a sentence."""


class Process:
    """A build that was started here; ends with `close`, or with this process."""

    def __init__(self, level_name: str, launch: Launch) -> None:
        """`Lost` if it cannot be started, such as on a disk that is full."""
        self._level_name = level_name
        network = _network()
        try:
            self._start(network)
        except OSError as error:
            raise Lost(f"does not start: {error}") from None
        self._until = time.monotonic() + STARTS_WITHIN_S
        self.send(launch._replace(folder=str(self._folder)))

    def _start(self, network: Sequence[str]) -> None:
        """Starts the program beside the build, in a folder of its own."""
        self._folder, lock = held_folders.make_new(PREFIX)
        ours, theirs = socket.socketpair()
        # -P: the current folder may have packages of the same names.
        worker = ("-P", "-m", "environments.unity.worker", str(theirs.fileno()), str(self._folder))
        try:
            self._process = subprocess.Popen(
                [*network, "--", sys.executable, *worker],
                pass_fds=[theirs.fileno(), lock],
                stdin=subprocess.DEVNULL,
                env=_environment(),
                process_group=0,
            )
        except OSError:
            ours.close()
            held_folders.remove(self._folder)
            raise
        finally:
            theirs.close()
            os.close(lock)
        self._connection = Connection(ours.detach())

    def is_answering(self) -> bool:
        """Whether there is something to read, or will never be."""
        return self._connection.poll() or time.monotonic() > self._until

    def level(self) -> Level:
        """What the build is, once it has started."""
        level = self._read(max(0.0, self._until - time.monotonic()), STARTS_WITHIN_S)
        assert isinstance(level, Level)
        return level

    def send(self, command: Any) -> None:
        """Sends `RESET` or actions; whether the build lives shows when it is waited for."""
        with contextlib.suppress(OSError):
            self._connection.send(command)

    def rows(self) -> Rows:
        """The rows that answer a command."""
        rows = self._read(ANSWERS_WITHIN_S, ANSWERS_WITHIN_S)
        assert isinstance(rows, Rows)
        return rows

    def _read(self, within_s: float, limit_s: float) -> Any:
        """What comes within so much of a limit."""
        try:
            if not self._connection.poll(within_s):
                raise Lost(f"does not answer: nothing for {limit_s:g} s")
            answer = self._connection.recv()
        except (EOFError, ConnectionError, pickle.UnpicklingError):
            raise Lost("has ended") from None
        if not isinstance(answer, Failed):
            return answer
        if answer.usable:
            raise Lost(answer.reason)
        raise UserError(f"--level_name: {self._level_name} {answer.reason}.")

    def close(self) -> None:
        """Ends the build."""
        # The program beside it would notice the end of its connection while it closes the build.
        self.send(None)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(LEAVES_WITHIN_S)
        self.kill()

    def kill(self) -> None:
        """Ends the build at once; it may be frozen."""
        self._process.kill()
        self._process.wait()
        self._connection.close()
        held_folders.remove(self._folder)


@functools.cache
def _network() -> tuple[str, ...]:
    """The command that starts others in a network of their own."""
    if shutil.which("unshare") is None or shutil.which("setpriv") is None:
        raise UserError("unity levels need unshare and setpriv: install Debian's util-linux.")
    for command in NETWORKS:
        tried = subprocess.run(
            [*command, "--", "true"], capture_output=True, text=True, check=False
        )
        if tried.returncode == 0:
            return command
    reason = tried.stderr.strip() or f"exit code {tried.returncode}"
    raise UserError(
        "unity levels run in a network with loopback only, which this machine does not allow "
        f"({reason.splitlines()[-1]}): run as root, or let users make namespaces "
        "(sysctl kernel.unprivileged_userns_clone=1)."
    )


def _environment() -> dict[str, str]:
    root = str(Path(__file__).resolve().parents[2])
    paths = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
    return {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **os.environ, "PYTHONPATH": paths}
