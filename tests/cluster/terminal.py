"""A command in a terminal of its own, as a person would run it."""

import fcntl
import os
import pty
import select
import signal
import struct
import termios
from collections.abc import Sequence
from pathlib import Path

from tests.cluster.conftest import wait_for

SIZE = (50, 200)  # rows and columns


class Terminal:
    """Reads what a command shows, and types; ended with the ``with`` block."""

    def __init__(self, command: Sequence[str], folder: Path, env: dict[str, str]):
        self.shown = ""
        self._code: int | None = None
        self._pid, self._terminal = pty.fork()
        if not self._pid:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
            os.chdir(folder)
            os.execvpe(command[0], list(command), env)

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        if self._code is None:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        os.close(self._terminal)

    def wait_for(self, text: str, times: int = 1) -> None:
        """Waits until a text was shown so many times."""
        try:
            wait_for(lambda: self._read().count(text) >= times)
        except AssertionError:
            raise AssertionError(f"no {text!r} in {self.shown!r}") from None

    def type(self, line: str) -> None:
        """Types a line."""
        os.write(self._terminal, f"{line}\n".encode())

    def wait(self) -> int:
        """The exit code, once it has ended."""
        wait_for(self._has_ended)
        assert self._code is not None
        return self._code

    def _has_ended(self) -> bool:
        self._read()
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        if pid:
            self._read()
            self._code = os.waitstatus_to_exitcode(status)
        return bool(pid)

    def _read(self) -> str:
        while select.select([self._terminal], [], [], 0)[0]:
            try:
                self.shown += os.read(self._terminal, 65536).decode(errors="replace")
            except OSError:  # nobody is left at the other end
                break
        return self.shown
